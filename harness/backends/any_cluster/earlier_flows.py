"""Recognizes outcomes that earlier flows may have caused: a client may reuse a source port that conntrack still tracks.

TCP: if an address has no rules on the client's node, a SYN to this address leaves the node untranslated, and conntrack
keeps the flow for two minutes. A later attempt from the same source port takes the same path even if the rules have
changed. No known proxy deletes such conntrack entries, and agnhost does not report source ports. Since Linux 5.18, the
kernel restarts its choice of source ports every ten seconds, so a port may be reused after a few dozen connections. So
if a client has earlier unanswered attempts and gets no answer to a few more, another pod on the same node repeats the
probe. If the proxy is at fault, the repeated probe fails too.

UDP: after a change, a few answers still come from the old endpoints (on average 2.6 of 270, after 270 flows with 28,232
ports), which no KEP forbids. If their number is within an upper bound, the dialer sends more probes: enough that a
fault would exceed the bound.
"""

import threading
import time
from collections import Counter, deque
from collections.abc import Callable, Mapping, Sequence

from harness.backends.any_cluster.pods import ClientPod
from harness.judging.statistics import DEFAULT_RATES, at_most, most, samples_for_leak
from harness.model.outcomes import Observation, Unknown

TCP_SECONDS = 120.0  # nf_conntrack_tcp_timeout_syn_sent
UDP_SECONDS = 60.0  # Linux tracks a query and its answer for 30 s (nf_conntrack_udp_timeout), Cilium for 60
PORT_RANGE = "cat /proc/sys/net/ipv4/ip_local_port_range"
TIMES = (4, 8, 16, 32)  # factors by which the number of probes is multiplied
LEAST = samples_for_leak(DEFAULT_RATES.leak, DEFAULT_RATES.miss)  # the minimum of the number that is multiplied

_WHY = "an earlier flow may have had the same source port: there were too many earlier flows to exclude it"

Path = tuple[ClientPod, str, int]  # the client, and the address and port of the destination


class TcpFlows:
    """Each client's unanswered attempts to each destination in the last two minutes. Thread-safe."""

    def __init__(self) -> None:
        self._known: dict[Path, deque[tuple[float, float, int]]] = {}  # start, end and unanswered attempts of a request
        self._lock = threading.Lock()

    def note(self, path: Path, begin: float, unanswered: int) -> None:
        """Record a request that started at `begin`, ended now, and had this number of unanswered attempts."""
        if unanswered:
            with self._lock:
                self._known.setdefault(path, deque()).append((begin, time.monotonic(), unanswered))

    def earlier(self, path: Path, before: float) -> int:
        """Return the number of unanswered attempts that started before this time and may still be in conntrack."""
        with self._lock:
            known = self._known.get(path, deque())
            while known and known[0][1] < before - TCP_SECONDS:
                known.popleft()
            return sum(unanswered for begin, _, unanswered in known if begin < before)

    def doubtful(self, path: Path, begin: float, tries: int) -> int:
        """Return the number of unanswered attempts since `begin` if earlier attempts can explain them all, else 0."""
        with self._lock:
            unanswered = sum(count for at, _, count in self._known.get(path, ()) if at >= begin)
        return unanswered if unanswered < max(tries, 2) and unanswered <= self.earlier(path, begin) else 0


class UdpFlows:
    """The outcomes of each client's flows to each destination in the last minute. Thread-safe."""

    def __init__(self) -> None:
        self._known: dict[Path, deque[tuple[float, Counter[Observation]]]] = {}
        self._lock = threading.Lock()

    def note(self, path: Path, outcomes: Sequence[Observation]) -> None:
        with self._lock:
            self._known.setdefault(path, deque()).append((time.monotonic(), Counter(outcomes)))

    def earlier(self, path: Path) -> Counter[Observation]:
        with self._lock:
            known = self._known.get(path, deque())
            while known and known[0][0] < time.monotonic() - UDP_SECONDS:
                known.popleft()
            return sum((outcomes for _, outcomes in known), Counter())


def of_new_flows(
    seen: Sequence[Observation],
    earlier: Mapping[Observation, int],
    ports: int,
    ask: Callable[[int], Sequence[Observation]],
) -> list[Observation]:
    """Return as many outcomes as `seen` has, but none that earlier flows explain. `ask` sends more probes."""
    shares: dict[Observation, float] = {
        each: min(count / ports, 0.99) for each, count in earlier.items() if not isinstance(each, Unknown)
    }

    def explains(counts: Mapping[Observation, int], probes: int) -> set[Observation]:
        return {each for each in shares if 0 < counts[each] <= most(probes, shares[each], DEFAULT_RATES.miss)}

    doubtful = explains(Counter(seen), len(seen))
    if not doubtful:
        return list(seen)
    probes = enough(len(seen), max(shares[each] for each in doubtful))
    if not probes:
        return [Unknown(_WHY) if each in doubtful else each for each in seen]
    every = [*seen, *ask(probes - len(seen))]
    old = doubtful & explains(Counter(every), probes)
    fresh = [each for each in every if each not in old][: len(seen)]
    return [*fresh, *[Unknown(_WHY)] * (len(seen) - len(fresh))]


def enough(probes: int, share: float) -> int:
    """Return how many probes detect a fault if earlier flows used a share of the ports, or 0 if that is too many."""
    miss, fault = DEFAULT_RATES.miss, share + DEFAULT_RATES.leak * (1 - share)
    totals = (times * max(probes, LEAST) for times in TIMES)
    return next((each for each in totals if at_most(most(each, share, miss), each, fault) <= miss), 0)


def ports_of(text: str) -> int:
    first, last = map(int, text.split())
    return last - first + 1
