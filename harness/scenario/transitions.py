"""Steady traffic during a block of changes, in which every single question must get an answer.

    with expect_no_loss(cluster, service, from_=["a1", "c1"], allowed={a1, b1}) as flow:
        cluster.publish(service, [same_zone(b1)])
        expect_traffic(cluster, service, {"a1": {b1}})   # by now all traffic goes to b1
        flow.wait_for_samples()                          # and still does for the samples that the error rates need

Each client sends at a fixed rate, by a connection of its own (TCP) or from a source port of its own (UDP), whether or
not it has been answered: a gap of 200 ms loses all questions of those 200 ms. When the block ends, the flow goes on
until each client has asked as often after the last change as the stated error rates need; then all is judged, from the
first question to the last. A question that nobody answered, that was refused, or that another pod answered, fails the
check. How long a client was without an answer at most stands in the history and in the report.

Which pod answers when is for `expect_traffic` to say, inside the block. Blocks can be nested, one for each Service or
kind of address.
"""

from __future__ import annotations

import contextlib
from collections import defaultdict
from collections.abc import Iterator, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import replace

from harness.backends.backend import SteadyTraffic
from harness.backends.protocols import Probing
from harness.errors import InconclusiveError
from harness.eventually import eventually
from harness.judging import verdict
from harness.judging.flow import Timed, longest_gap
from harness.judging.statistics import DEFAULT_RATES
from harness.judging.timeline import Seen
from harness.judging.verdict import AnyOf
from harness.model.manifests import Port
from harness.model.outcomes import Observation, Reached, Refused, TimedOut, Unknown
from harness.model.workloads import Pod
from harness.probes.loop import Sample
from harness.scenario.cluster import Cluster
from harness.scenario.paths import Path, Who, named, names, target_of
from harness.scenario.service import AddressKind, Service
from harness.scenario.traffic import expect_first_answers, raise_unless_passed

INTERVAL = 0.004  # seconds between two questions of a client
BEFORE = 10  # questions of each client before the block begins
PATIENCE = 30.0  # seconds, before the time scale, for the wanted number of questions


class Flow:
    """The traffic of a block; clients send until the block ends."""

    def __init__(self, recording: SteadyTraffic, clients: int, needed: int) -> None:
        self._recording = recording
        self._clients = clients
        self._needed = needed

    def wait_for_samples(self, count: int = 0) -> None:
        """Go on until each client has sent `count` more questions, by default the number that the error rates need.

        Raises `InconclusiveError` if the machine is too slow.
        """
        asked = self._recording.asked
        wanted = asked + (count or self._needed) * self._clients
        eventually(
            lambda: self._recording.asked >= wanted,
            within=PATIENCE,
            describe=f"{wanted - asked} questions by {self._clients} clients",
            error=InconclusiveError,
        )


@contextlib.contextmanager
def expect_no_loss(
    cluster: Cluster,
    service: Service,
    *,
    from_: Sequence[Who],
    allowed: AbstractSet[Pod],
    to: AddressKind = "cluster-ip",
    family: str | None = None,
    port: Port | None = None,
    via: str | None = None,
) -> Iterator[Flow]:
    """Expect an answer from one of the allowed pods to each question of these clients during the block.

    Clients and addresses are given as for `expect_traffic`. Before the block, every client is answered. A pod that is
    made inside the block and has the name of an allowed one is allowed too. What the block itself raises goes on;
    else raises `AssertionError` with the grid, and `InconclusiveError` when it cannot be told.
    """
    target = target_of(cluster, service, to=to, family=family, port=port, via=via)
    paths = [target.path(who, AnyOf(names(allowed))) for who in from_]
    expect_first_answers(cluster, paths, target)
    title = f"{target}, through changes"
    # What is lost in a change of milliseconds may be one client's alone.
    rates = replace(DEFAULT_RATES, alone=DEFAULT_RATES.leak, chances=1)
    window = cluster.window(title, paths, rates)
    recording = cluster.backend.part(Probing).record(INTERVAL, [path.probes(1)[0] for path in paths])
    flow = Flow(recording, len(paths), window.plans[paths[0].label].samples)
    try:
        flow.wait_for_samples(BEFORE)
        yield flow
        with contextlib.suppress(InconclusiveError):  # if a component does not settle, packets show the effect
            cluster.settle()
        flow.wait_for_samples()
    finally:
        seen = _by_client(cluster, paths, recording.stop())
        for label, samples in seen.items():
            window.observe_flow(label, samples)
    raise_unless_passed(window.judge(), title, lambda: cluster.timeline(_losses(paths, seen)))
    cluster.answered.add(service.name)


def _by_client(cluster: Cluster, paths: Sequence[Path], samples: Sequence[Sample]) -> dict[str, list[Timed]]:
    found: dict[str, list[Timed]] = defaultdict(list)
    for each in samples:
        found[paths[each.probe].label].append((each.at, named(cluster, each.observation)))
    return found


def _losses(paths: Sequence[Path], seen: dict[str, list[Timed]]) -> list[Seen]:
    """Return each client's first question without a right answer, and its longest gap."""
    found = []
    for path in paths:
        samples = seen[path.label]
        wrong = [(at, each) for at, each in samples if verdict.is_wrong(each, path.expected)]
        if wrong:
            at, first = wrong[0]
            found.append(
                Seen(
                    at,
                    f"{path.label} asks, and {_came_of(first)}: the first of {len(wrong)} wrong of {len(samples)} "
                    f"questions; its longest gap is {longest_gap(samples):g} ms",
                )
            )
    return found


def _came_of(observation: Observation) -> str:
    match observation:
        case Reached(pod):
            return f"{pod} answers"
        case Refused():
            return "is refused"
        case TimedOut():
            return "nobody answers"
        case Unknown(why):
            return f"nobody knows what comes of it ({why})"
