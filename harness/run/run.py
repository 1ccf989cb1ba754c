"""The state of a run that all parts of the plugin share: settings, output folder and plan.

Workers pass data to xdist's main process through files, so that the data remains after a worker ends.
"""

import contextlib
import datetime
import os
import signal
import time
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, TypeVar

import pytest

from harness.judging.conclusion import first_line
from harness.judging.history import History
from harness.model.needs import Needs
from harness.run.folder import OutputFolder
from harness.run.plan import Plan
from harness.settings.settings import Settings
from harness.variation.axes import PLAIN, DrawnValues

T = TypeVar("T")


@dataclass(slots=True)
class Run:
    settings: Settings
    folder: OutputFolder
    arguments: tuple[str, ...] = ()
    worker: str = ""  # "gw0" in a worker, "" in the controller
    distributed: bool = False
    whole_suite: bool = False
    start: datetime.datetime = field(default_factory=lambda: datetime.datetime.now(datetime.UTC))
    started_at: float = field(default_factory=time.monotonic)
    plan: Plan | None = None
    environment: dict[str, Any] = field(default_factory=dict)
    distrust: list[str] = field(default_factory=list)
    retries: int = 0
    interrupted: bool = False
    sealed: bool = False  # `interrupted` is final, because the report has been written or there is none
    when_decided: Callable[[int], object] = lambda _: None  # called with the exit code
    usage_error: str = ""
    target: dict[str, Any] = field(default_factory=dict)  # the real cluster of the run, if it has one
    lacking: dict[str, str] = field(default_factory=dict)  # unobservable features by name, with reasons
    suite: Path = Path()  # the folder of the suite
    workers: str = ""  # the number of worker processes, or "none"
    worker_pids: list[int] = field(default_factory=list)  # of all workers, including workers that have ended
    shrinking: DrawnValues | None = None  # the draw with which a failed test is repeated
    missing: list[str] = field(default_factory=list)  # what the report lacks, with reasons
    _history: History | None = field(default=None, init=False, repr=False)

    def decorate(self, what: str, make: Callable[[], T], otherwise: T) -> T:
        """Return an optional part of the report. If `make` fails, record the error once, and return `otherwise`."""
        if any(each.startswith(f"{what}: ") for each in self.missing):
            return otherwise
        try:
            return make()
        except Exception as error:  # noqa: BLE001  an optional part must not end a run
            self.missing.append(f"{what}: {type(error).__name__}: {first_line(str(error))}")
            return otherwise

    @property
    def history(self) -> History:
        """This process's part of the history, created on first use. Raises `UsageError` if it cannot be written."""
        if self._history is None:
            worker = self.worker or "main"
            self._history = History(self.folder.parts / f"history-{worker}.jsonl", worker=worker)
        return self._history

    def draw_of(self, requirement_id: str) -> DrawnValues:
        """Return the draw of a requirement, or the draw with which its failed test is being repeated."""
        if self.shrinking is not None:
            return self.shrinking
        return self.plan.draw_of(requirement_id) if self.plan is not None else PLAIN

    def interrupt_workers(self) -> None:
        """Interrupt all workers. Otherwise xdist would wait for the running tests."""
        for pid in self.worker_pids:
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGINT)

    def interrupt(self) -> None:
        """Record that a signal arrived before the report was written."""
        if not self.sealed:
            self.interrupted = True

    def close_history(self) -> None:
        if self._history is not None:
            self._history.close()

    def leave_plan(self, plan: Plan) -> None:
        """Set the plan. A worker also stores it for xdist's main process. All workers have the same plan."""
        self.plan = plan
        if self.worker:
            self.folder.leave_part("plan", asdict(plan))

    def known_plan(self) -> Plan | None:
        if self.plan is None and self.distributed:
            for values in self.folder.parts_named("plan"):
                self.plan = Plan.from_json(values)
        return self.plan

    def leave_environment(self, environment: Mapping[str, Any]) -> None:
        if not self.environment:
            self.environment = dict(environment)
            if self.worker:
                self.folder.leave_part(f"environment-{self.worker}", self.environment)

    def known_environment(self) -> dict[str, Any]:
        if not self.environment:
            self.environment = self.decorate("facts about the cluster", self._left_environment, {})
        return self.environment

    def _left_environment(self) -> dict[str, Any]:
        return next(iter(self.folder.parts_named("environment-")), {})

    def leave_end(self, component: str, text: str) -> None:
        """Inform all processes of the run that a judged component has exited or does not respond."""
        self.folder.leave_part(f"ended-{component}-{self.worker or 'main'}", {component: text})

    def known_ends(self) -> dict[str, str]:
        return {component: text for each in self.folder.parts_named("ended-") for component, text in each.items()}

    @property
    def offered(self) -> Needs:
        nodes = frozenset(node["name"] for node in self.target["topology"]["nodes"])
        return Needs(frozenset(self.target["abilities"]), nodes)

    def to_json(self) -> dict[str, Any]:
        return {
            "settings": self.settings.to_json(),
            "folder": str(self.folder.path),
            "arguments": list(self.arguments),
            "whole_suite": self.whole_suite,
            "target": self.target,
            "lacking": self.lacking,
        }

    @classmethod
    def in_worker(cls, values: Mapping[str, Any], worker: str) -> "Run":
        return cls(
            Settings.from_json(values["settings"]),
            OutputFolder(Path(values["folder"])),
            tuple(values["arguments"]),
            worker=worker,
            whole_suite=values["whole_suite"],
            target=dict(values["target"]),
            lacking=dict(values["lacking"]),
        )


RUN = pytest.StashKey[Run]()


def run_of(config: pytest.Config) -> Run | None:
    return config.stash.get(RUN, None)
