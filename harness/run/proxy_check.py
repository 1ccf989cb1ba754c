"""The first look at a proxy: boots two nodes with it, asks a few questions, and says step by step what holds.

It is no run, and nothing follows from it for a certificate: it tells who has just written a recipe or a proxy how far
that comes, in seconds. What does not hold is said with what was expected and seen, the first error of the proxy's log,
where the evidence is, and what to look at next.
"""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace
from pathlib import Path

from harness.api.client import RefusedError
from harness.backends.backend import Backend
from harness.backends.netns import NetnsBackend
from harness.errors import DistrustError, EndedError, HarnessError, InconclusiveError, IneligibleError, StartError
from harness.eventually import set_time_scale
from harness.judging.conclusion import UnmetError, UntoldError
from harness.judging.exit_codes import ExitCode, Situation, exit_code
from harness.judging.history import History
from harness.model.judged import mark
from harness.model.own_folder import OwnFolder
from harness.model.program_log import fault_in
from harness.run.folder import DEFAULT_PARENT, OutputFolder, name_for_now
from harness.run.proxy_steps import STEPS, TWO_ZONES, Asking, Step
from harness.run.real_cluster import held
from harness.scenario.cluster import Cluster
from harness.scenario.evidence import explain_failure
from harness.settings.implementations import of_settings
from harness.settings.settings import Settings

PATIENCE = 10.0
"""Seconds, before the time scale, that a change is waited for where no time is declared. A run waits for longer."""

RESTS = 1.0
"""Seconds, before the time scale, for which a proxy rests that is waited for no longer, if it says that it is done."""

_STARTED, _READY, _SYNCED = "the program starts", "it is ready", "it has worked on everything written so far"
_REMEDIES = {
    _STARTED: "run the command of the recipe by hand; placeholders are listed in docs/proxies.md",
    _READY: "a check under `ready` does not come to hold: is it right, and is `ready_seconds` enough?",
    _SYNCED: "a check under `synced` does not come to hold, without a break, for `quiet_seconds`: is it right?",
}
_INSTALLED = "it is installed"
_ON_KIND = {
    _INSTALLED: "what `kind.objects` has must be what this API server takes, and `kind.install` must end well",
    _READY: "see that pod on a cluster that stays (--keep-cluster); is `kind.ready_seconds` enough?",
    _SYNCED: "a Service whose endpoint changes must be reached from pods on both nodes, at its new endpoint",
}
"""What comes to hold as a proxy boots, in this order, and what to look at next where it does not."""
ENDED = "a proxy must keep running, and work on what is written: see what its log says last"
_NAMESPACE = "td-proxy-check"

Say = Callable[[str], None]


def check(settings: Settings, say: Say) -> ExitCode:
    """Check the proxy of these settings on a cluster of its own, a line a step, and return the exit code.

    Raises `UsageError`, and `UnavailableError` with the remedy.
    """
    set_time_scale(settings.time_scale)
    made = _made(settings, say)
    known = "the recipe is right" if settings.proxy.file else "the proxy is there"
    say(_line("ok", f"{known}: {settings.proxy}, mode {settings.mode} {mark(settings.judges)}".rstrip()))
    checking = _Checking(settings, say)
    with contextlib.ExitStack() as begun:
        if backend := checking.boots(made, begun):
            own = begun.enter_context(OwnFolder("trafficdist-check-"))
            history = begun.enter_context(History(own.path / "run.jsonl"))
            within = settings.converges_within or PATIENCE
            cluster = Cluster(backend, _NAMESPACE, history=history, test="proxy check", converges_within=within)
            begun.callback(cluster.close)
            checking.ask(cluster)
    return checking.end()


def _made(settings: Settings, say: Say) -> contextlib.AbstractContextManager[Backend]:
    """Return the cluster to be booted, with two nodes."""
    if settings.backend == "kind":
        return held(replace(settings, topology=TWO_ZONES), lambda text: say(_line("", text)))
    made = NetnsBackend(
        TWO_ZONES, families=settings.families, implementation=of_settings(settings), release=settings.release
    )
    made.rests_for = RESTS
    return made


class _Checking:
    """What was found so far."""

    def __init__(self, settings: Settings, say: Say) -> None:
        self._settings, self._say = settings, say
        self._situation = Situation()
        self._unmet: set[str] = set()
        self._folder = OutputFolder(Path(settings.output_dir) if settings.output_dir else _default_path())
        self._kept = False
        self._booted = _ON_KIND if settings.backend == "kind" else _REMEDIES
        self._begun = time.monotonic()

    def boots(self, made: contextlib.AbstractContextManager[Backend], begun: contextlib.ExitStack) -> Backend | None:
        """Boot the cluster, say how far its proxies came, and return it; None if they did not come far enough."""
        try:
            backend = begun.enter_context(made)
        except StartError as error:
            self._boot_ends(next(iter(self._booted)) if error.exited else _READY, error)
            return None
        except (EndedError, DistrustError) as error:
            self._boot_ends(_SYNCED, error)
            return None
        self._say_well(self._booted)
        return backend

    def _boot_ends(self, title: str, error: HarnessError) -> None:
        titles = list(self._booted)
        self._say_well(titles[: titles.index(title)])
        self._situation = replace(self._situation, distrust=True)
        self._say_unmet(title, error, error.logs, self._booted[title])

    def _say_well(self, titles: Iterable[str]) -> None:
        for each in titles:
            self._say(_line("ok", each))

    def ask(self, cluster: Cluster) -> None:
        """Ask all questions, but those that build on what is answered wrongly."""
        asking = Asking(cluster)
        for step in STEPS:
            if step.feature in self._settings.exempt_features:
                self._say(_line("-", f"{step.title}: not asked, {step.feature} is not claimed"))
            elif step.after in self._unmet:
                self._unmet.add(step.title)
                self._say(_line("-", f"{step.title}: not asked"))
            elif isinstance(self._ask(step, asking, cluster), EndedError):
                return  # nothing else can be told

    def _ask(self, step: Step, asking: Asking, cluster: Cluster) -> Exception | None:
        """Ask one question, and return what was wrong, if anything."""
        fault = _fault(step, asking, cluster)
        if fault is None:
            self._say_well([step.title])
        elif isinstance(fault, IneligibleError):
            self._say(_line("-", f"{step.title}: not asked, {fault}"))
        else:
            failed = isinstance(fault, AssertionError)
            self._situation = replace(self._situation, **{"failed" if failed else "inconclusive": True})
            self._unmet.add(step.title)
            remedy = ENDED if isinstance(fault, EndedError) else step.remedy
            self._say_unmet(step.title, fault, dict(explain_failure(cluster, cluster.record)), remedy)
        return fault

    def _say_unmet(self, title: str, fault: Exception, texts: Mapping[str, str | bytes], remedy: str) -> None:
        """Say what does not hold, with the first error of each log unless the fault is about a start and has it."""
        lines = _expected_and_seen(fault).strip().splitlines()
        for name, text in {} if isinstance(fault, StartError) else sorted(texts.items()):
            if name.endswith(".log") and isinstance(text, str):
                lines.append(f"{name}: {fault_in(text)}")
        if self._settings.keep != "never":
            lines.append(f"evidence: {self._keep(title, {**texts, 'explanation.txt': str(fault)})}")
        lines.append(f"next: {remedy}")
        unclear = title not in self._booted and isinstance(fault, (InconclusiveError, RefusedError))
        marked = _line("UNCLEAR" if unclear else "FAILED", title)
        self._say("\n".join([marked, *(_line("", line).rstrip() for line in lines)]))

    def _keep(self, title: str, texts: Mapping[str, str | bytes]) -> Path:
        """Write all logs, texts and captures, and return their folder."""
        if not self._kept:
            self._folder.prepare()
            self._kept = True
        place = f"evidence/{title.replace(':', '').replace(' ', '-')}"
        for name, text in texts.items():
            self._folder.write(f"{place}/{name}", text)
        return self._folder.path / place

    def end(self) -> ExitCode:
        """Say how long it took, and return the exit code."""
        if self._kept:
            self._folder.finish()
        code = exit_code(self._situation)
        what = "All steps hold" if code is ExitCode.PASSED else "Not all steps hold"
        self._say(f"{what} (exit code {code:d}, {time.monotonic() - self._begun:.1f} s).")
        return code


def _line(mark: str, text: str) -> str:
    return f"  {mark:<8}{text}"


def _fault(step: Step, asking: Asking, cluster: Cluster) -> Exception | None:
    """Return what was wrong with the answer to a question; of a proxy that has ended by itself, just that."""
    try:
        step.ask(asking)
    except AssertionError as error:
        try:
            cluster.check_instruments()
        except HarnessError as doubt:
            return doubt
        return error
    except (HarnessError, RefusedError) as error:
        return error
    return None


def _expected_and_seen(fault: Exception) -> str:
    """Return the text for a person, without what stands in the evidence."""
    return fault.judgement.message if isinstance(fault, (UnmetError, UntoldError)) else str(fault)


def _default_path() -> Path:
    """Return a folder apart from those of runs, the latest of which has a name of its own."""
    return Path(DEFAULT_PARENT) / "checks" / name_for_now()
