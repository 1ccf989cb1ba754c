"""Expects every probe of steady traffic to be answered during a block of changes.

    with expect_no_loss(cluster, service, from_=["a1", "c1"], allowed={a1, b1}) as flow:
        cluster.publish(service, [same_zone(b1)])
        expect_traffic(cluster, service, {"a1": {b1}})   # by now all traffic goes to b1
        flow.wait_for_samples()                          # and still does for the samples that the error rates need

Each client sends at a fixed rate, without waiting for answers. Each probe uses a new connection (TCP) or source port
(UDP). An outage of 200 ms loses all probes of these 200 ms. After the block, traffic continues until each client has
sent as many probes since the last change as the stated error rates require. Then all probes are judged. The check fails
if a probe has no answer, is refused, or is answered by a pod that is not allowed. The history and the report contain
the longest gap of each client.

Call `expect_traffic` inside the block to check which pods answer at a given time. Blocks for several Services or kinds
of address can be nested.
"""

from __future__ import annotations

import contextlib
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import replace

from harness.backends.backend import SteadyTraffic
from harness.backends.protocols import Probing
from harness.errors import InconclusiveError
from harness.eventually import eventually
from harness.judging import verdict
from harness.judging.statistics import DEFAULT_RATES
from harness.judging.timeline import Seen, Timed, longest_gap
from harness.judging.verdict import AnyOf
from harness.model.manifests import Port
from harness.model.outcomes import Reached
from harness.model.times import whole
from harness.model.workloads import Pod
from harness.scenario.cluster import Cluster
from harness.scenario.measuring import expect_first_answers, raise_unless_passed, said
from harness.scenario.paths import Path, names
from harness.scenario.service import AddressKind, Service
from harness.scenario.service_address import ClientRef, named, service_address

INTERVAL = 0.004  # seconds between two probes of a client
BEFORE = 10  # probes of each client before the block begins
PATIENCE = 30.0  # time limit for the required number of probes, in seconds before the time scale


class BlockTraffic:
    """The steady traffic of a block. Clients send until the block ends."""

    def __init__(self, recording: SteadyTraffic, clients: int, needed: int) -> None:
        self._recording = recording
        self._clients = clients
        self._needed = needed

    def wait_for_samples(self, count: int = 0) -> None:
        """Wait until each client has sent `count` more probes, by default the number for the stated error rates.

        Raises `InconclusiveError` if the machine is too slow.
        """
        asked = self._recording.asked
        wanted = asked + (count or self._needed) * self._clients
        eventually(
            lambda: self._recording.asked >= wanted,
            within=PATIENCE,
            describe=f"{wanted - asked} probes from {self._clients} clients",
            error=InconclusiveError,
        )


@contextlib.contextmanager
def expect_no_loss(
    cluster: Cluster,
    service: Service,
    *,
    from_: Sequence[ClientRef],
    allowed: AbstractSet[Pod],
    to: AddressKind | None = None,
    family: str | None = None,
    port: Port | None = None,
    via: str | None = None,
    lossless: bool = True,
) -> Iterator[BlockTraffic]:
    """Expect an allowed pod to answer each probe of these clients during the block.

    Clients and addresses are given as for `expect_traffic`. Before the block, every client must get an answer. A pod
    that is created inside the block is also allowed if its name is. Raises `AssertionError` with the grid or
    `InconclusiveError`, unless the block itself raises an exception. If not `lossless`, only answers count.
    """
    target = service_address(cluster, service, to=to, family=family, port=port, via=via)
    paths = [target.path(who, AnyOf(names(allowed))) for who in from_]
    expect_first_answers(cluster, paths, f"answer by {target}", f"an answer by {target}")
    title = f"{target}, through changes"
    # A change of a few milliseconds may affect only one client.
    rates = replace(DEFAULT_RATES, alone=DEFAULT_RATES.leak, chances=1)
    window = cluster.window(title, paths, rates)
    recording = cluster.backend.part(Probing).record(INTERVAL, [path.probes(1)[0] for path in paths])
    flow = BlockTraffic(recording, len(paths), window.plans[paths[0].label].samples)
    try:
        flow.wait_for_samples(BEFORE)
        yield flow
        with contextlib.suppress(InconclusiveError):  # the traffic shows whether a component does not settle
            cluster.settle()
        flow.wait_for_samples()
    finally:
        seen: dict[str, list[Timed]] = defaultdict(list)
        for each in recording.stop():
            if lossless or isinstance(each.observation, Reached):
                seen[paths[each.probe].label].append((each.at, named(cluster, each.observation)))
        for label, samples in seen.items():
            seen[label] = window.observe_flow(label, samples)
    raise_unless_passed(window.judge(), title, lambda: cluster.timeline(list(_first_losses(paths, seen))))
    cluster.record.answered.add(service.name)


def _first_losses(paths: Sequence[Path], seen: Mapping[str, Sequence[Timed]]) -> Iterator[Seen]:
    """Yield each client's first probe without a right answer, and the client's longest gap."""
    for path in paths:
        samples = seen[path.label]
        wrong = [(at, each) for at, each in samples if verdict.is_wrong(each, path.expected)]
        for at, first in wrong[:1]:
            first_of = f"{path.label} {said(first)}: the first of {len(wrong)} wrong of {len(samples)} probes"
            yield Seen(at, f"{first_of}; its longest gap is {whole(longest_gap(samples))} ms")
