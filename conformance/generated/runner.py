"""Run the fixed scenarios, scenarios from a file, or new ones. Shrink failing scenarios that are not fixed."""

from __future__ import annotations

import functools
import time
from collections.abc import Collection, Iterable, Mapping, Sequence
from pathlib import Path

from conformance.generated import shrinking, yaml_format
from conformance.generated.lifecycles import Lifecycle, group_of
from conformance.generated.traffic import play, run_servers
from trafficdist import Cluster, GenerationSettings, IneligibleError, Pod

CORPUS = Path(__file__).with_name("corpus.yaml")
"""The file of the fixed scenarios. `python -m conformance.generated corpus` writes this file."""

SHRINKING = 40.0
"""The time limit in seconds for shrinking the failing scenarios of one batch."""

_PATIENCE = 1.0  # seconds to wait for convergence while shrinking, not yet multiplied by the time scale

_FEW = 3  # maximum number of failing scenarios to show


def check(asked: GenerationSettings) -> None:
    """Raise `UsageError` if the requested scenarios cannot be read."""
    if asked.replay:
        yaml_format.read(asked.replay)


@functools.cache
def corpus() -> tuple[Lifecycle, ...]:
    return tuple(yaml_format.read(str(CORPUS)))


def expect_scenarios(cluster: Cluster, name: str, *, hints: bool) -> None:
    """Check fixed, replayed or new scenarios of a group. Raises `AssertionError` with the failing ones as YAML."""
    group, asked = (name, hints), cluster.generation
    runner = _ScenarioRunner(cluster, run_servers(cluster))
    if asked is None or asked.replay:
        found = [each for each in (yaml_format.read(asked.replay) if asked else corpus()) if group_of(each) == group]
        if not found:
            raise IneligibleError("the file has no scenario of this requirement")
        runner.expect(found)
        return
    from conformance.generated import strategies  # noqa: PLC0415  it imports Hypothesis

    made = 0
    for number in asked.batches(strategies.BATCH):
        lifecycles = strategies.batch(group, number, of_seed=asked.seed)
        made += len(lifecycles)
        runner.expect(lifecycles)
        cluster.clear()
    cluster.measured("scenarios that were made", {"scenarios": made})


class _ScenarioRunner:
    def __init__(self, cluster: Cluster, servers: Sequence[Pod]) -> None:
        self._cluster = cluster
        self._servers = servers
        self._until = 0.0
        self._explained_failures = 0

    def expect(self, lifecycles: Iterable[Lifecycle]) -> None:
        """Check these scenarios. Scenarios with the same node zones run together."""
        named = {f"life-{number}": each for number, each in enumerate(lifecycles)}
        for number, some in enumerate(_alike(named)):
            if number:
                self._cluster.clear()
            play(self._cluster, self._servers, some, lambda name: self._explained(named[name]))

    def _explained(self, lifecycle: Lifecycle) -> str:
        """Return a failing scenario as YAML, shrunk unless it is a fixed scenario, or "" after `_FEW` failures."""
        self._explained_failures += 1
        if self._explained_failures > _FEW:
            return ""
        if self._cluster.generation is None:
            return f"For --replay, which makes it smaller:\n\n{yaml_format.as_yaml([lifecycle])}"
        self._until = self._until or time.monotonic() + SHRINKING
        patience, self._cluster.converges_within = self._cluster.converges_within, _PATIENCE
        try:
            smaller = shrinking.shrunk(lifecycle, self._failing, lambda: time.monotonic() < self._until)
        finally:
            self._cluster.converges_within = patience
        return f"As small as it became, for --replay:\n\n{yaml_format.as_yaml([smaller])}"

    def _failing(self, lifecycles: Sequence[Lifecycle]) -> Collection[Lifecycle]:
        named = {f"life-{number}": each for number, each in enumerate(lifecycles)}
        failing: dict[str, None] = {}

        def note(name: str) -> str:
            failing[name] = None
            return ""

        for some in _alike(named):
            self._cluster.clear()
            try:
                play(self._cluster, self._servers, some, note)
            except AssertionError:
                continue
        return [named[each] for each in failing]


def _alike(lifecycles: Mapping[str, Lifecycle]) -> Iterable[Mapping[str, Lifecycle]]:
    """Group scenarios that can share nodes: the nth states of all scenarios in a group have the same zone labels."""
    found: list[tuple[Sequence[object], dict[str, Lifecycle]]] = []
    for name, each in sorted(lifecycles.items(), key=lambda item: -len(item[1].states)):
        zones = [state.zones for state in each.states]
        group = next((some for others, some in found if others[: len(zones)] == zones), None)
        if group is None:
            found.append((zones, {name: each}))
        else:
            group[name] = each
    return [group for _, group in found]
