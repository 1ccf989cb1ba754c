"""Paths of packets from a client to an address of a Service, with the expected outcome."""

from collections.abc import Set as AbstractSet
from dataclasses import dataclass

from harness.eventually import time_scale
from harness.judging import verdict
from harness.judging.verdict import NoAnswer
from harness.model.outcomes import Refused, TimedOut
from harness.model.workloads import Pod
from harness.probes.loop import Probe, SocketSource

ANSWER_LIMIT = 0.9  # seconds; the kernel retransmits a lost SYN after one second, which would hide the loss
SILENCE_LIMIT = 0.4  # seconds, for probes that expect no answer


@dataclass(frozen=True, slots=True)
class PacketPath:
    """A client's path through the rules of `node` to an address. `of` is the Service's name and the kind of address."""

    label: str
    node: str
    place: SocketSource
    address: str
    port: int
    protocol: str
    expected: verdict.Expected
    of: tuple[str, str] = ("", "")

    @property
    def speaks(self) -> bool:
        """True if the client should get answers."""
        return not isinstance(self.expected, TimedOut | Refused | NoAnswer)

    @property
    def silent(self) -> bool:
        """True if the client should get neither an answer nor a refusal."""
        return isinstance(self.expected, TimedOut | NoAnswer)

    def probes(self, count: int) -> list[Probe]:
        limit = (SILENCE_LIMIT if self.silent else ANSWER_LIMIT) * time_scale()
        return [Probe(self.place, self.protocol, self.address, self.port, limit, silent=self.silent)] * count


def names(pods: AbstractSet[Pod]) -> frozenset[str]:
    return frozenset(pod.name for pod in pods)
