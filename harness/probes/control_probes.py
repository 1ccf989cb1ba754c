"""Control probes, which go from the netns of each client directly to each pod, not through the Service under test.

A pod without a network, a client without a route, or a full conntrack table looks like a proxy that drops packets. So
when an answer is late, the client sends UDP control probes to the pods' own addresses, every `EVERY` seconds until the
answer arrives or times out. If a control probe is lost, a missing answer counts as `Unknown`. An answer from a wrong
pod still counts as a failure. Faults shorter than twice `EVERY` may remain undetected. All code except
`ConcurrentControlProbes` runs on the loop's thread.
"""

import contextlib
import errno
import itertools
import socket
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from concurrent.futures import Future
from dataclasses import dataclass, field
from functools import partial
from typing import Protocol, Self

from harness.errors import HarnessError
from harness.eventually import time_scale
from harness.model.outcomes import Observation, Reached, Refused, TimedOut, Unknown
from harness.probes.probe import LONGEST_LINE, Probe, SocketSource, bind_unused, next_nonce
from harness.probes.reactor import Reactor
from harness.run_delay import RUN_DELAY

EVERY = 0.05
"""Seconds between rounds of control probes. If an answer is missing, the first round starts within two intervals."""
LIMIT = 0.25  # seconds (times the time scale) after which an unanswered control probe counts as lost
MOST = 64
"""The maximum number of control probes per round. If there are more pairs of clients and pods, the pairs take turns."""
_LISTED = 3  # maximum number of lost control probes in a message

Pair = tuple[str, str]  # names of a client and a pod


class ControlTargets(Protocol):
    def who(self, client: SocketSource) -> str:
        """Return the name of the client with this netns, or "" if it was deleted or disconnected on purpose."""

    def pods(self, family: int) -> Mapping[str, tuple[str, int]]:
        """Return the address and UDP port of each pod that should be reachable now, by pod name."""

    def overflows(self) -> Callable[[], int]:
        """Return a function that counts connections dropped by a full conntrack table since `overflows` was called."""


def once(probe: Probe) -> Callable[[], list[Probe]]:
    """Return a function that returns the probe on its first call, and nothing on later calls."""
    left = [probe]
    return lambda: [left.pop()] if left else []


@dataclass(slots=True, eq=False)
class ControlProbes:
    """Sends control probes for the probes from `missing`, every `EVERY` seconds until `conclude` or `end` is called."""

    targets: ControlTargets | None
    reactor: Reactor
    missing: Callable[[], Iterable[Probe]]
    _turns: dict[tuple[int, int], Iterator[int]] = field(default_factory=dict)
    _overflows: Callable[[], int] = int
    _lost: dict[Pair, str] = field(default_factory=dict)
    _running: "set[_ClientRound]" = field(default_factory=set)
    _report: Callable[[str], None] | None = None
    _sampled: contextlib.ExitStack = field(default_factory=contextlib.ExitStack)
    _samples: bool = False
    done: bool = False

    def begin(self) -> None:
        self._overflows = self.targets.overflows() if self.targets else int
        self.reactor.at(time.monotonic() + EVERY, self)

    def expired(self, now: float) -> None:
        """Start a round of control probes for missing answers, and measure how long programs wait for a CPU."""
        missing = list(self.missing())
        if not self._samples and not all(each.silent for each in missing):
            self._samples = True
            self._sampled.enter_context(RUN_DELAY.watched())
        self._round(missing)
        self.reactor.at(now + EVERY, self)

    def end(self) -> None:
        self.done = True
        self._sampled.close()
        for each in list(self._running):
            each.drop()

    def conclude(self, report: Callable[[str], None], missing: Iterable[Probe]) -> None:
        """Start a last round for the `missing` answers. When it is complete, call `report` with the fault, or ""."""
        self.done = True
        self._sampled.close()
        self._round(missing)
        self._report = report
        self._settle()

    def answered(self, each: "_ClientRound") -> None:
        self._running.discard(each)
        self._settle()

    def lost(self, client: SocketSource, family: int, pods: Iterable[str], why: str) -> None:
        """Record lost control probes, unless their client or pod has been deleted or disconnected on purpose."""
        if self.targets and (name := self.targets.who(client)):
            reachable = self.targets.pods(family)
            self._lost.update({(name, pod): why for pod in pods if pod in reachable})

    def _round(self, missing: Iterable[Probe]) -> None:
        if self.targets is None:
            return
        clients = {(id(each.namespace), _family(each)): each.namespace for each in missing}
        most = max(1, MOST // max(1, len(clients)))
        for key, client in clients.items():
            family = key[1]
            if pods := self.targets.pods(family) if self.targets.who(client) else {}:
                each = _ClientRound(self, client, family, self.reactor)
                self._running.add(each)
                each.ask(self._some(key, pods, most))

    def _some(
        self, key: tuple[int, int], pods: Mapping[str, tuple[str, int]], most: int
    ) -> Mapping[str, tuple[str, int]]:
        if len(pods) <= most:
            return pods
        turn = next(self._turns.setdefault(key, itertools.count(0, most))) % len(pods)
        return dict(itertools.islice(itertools.cycle(pods.items()), turn, turn + most))

    def _settle(self) -> None:
        if self._report is not None and not self._running:
            report, self._report = self._report, None
            report(self._fault())

    def _fault(self) -> str:
        full = self._overflows()
        if full > 0:
            return f"conntrack of this machine was full: it had no room for {full} connections"
        if not self._lost:
            return ""
        lost = [f"from {client} to pod {pod}{why}" for (client, pod), why in sorted(self._lost.items())]
        more = [f"{len(lost) - _LISTED} more"] if len(lost) > _LISTED else []
        return f"control probes directly to pods were lost too: {', '.join(lost[:_LISTED] + more)}"


@dataclass(slots=True, eq=False)
class _ClientRound:
    """One client's control probes in one round. They share a socket on an unused port, and differ in their nonces."""

    _control: ControlProbes
    _client: SocketSource
    _family: int
    _reactor: Reactor
    _socket: socket.socket | None = None
    _open: dict[bytes, str] = field(default_factory=dict)
    done: bool = False

    def ask(self, pods: Mapping[str, tuple[str, int]]) -> None:
        try:
            sock = self._client.socket(self._family, socket.SOCK_DGRAM | socket.SOCK_NONBLOCK | socket.SOCK_CLOEXEC)
            self._socket = sock
            self._reactor.watch(sock.fileno(), self)
            bind_unused(sock)
        except (OSError, HarnessError) as error:
            why = _named(error) if isinstance(error, OSError) and self._socket else f" ({error})"
            self._control.lost(self._client, self._family, pods, why)
            self._finish()
            return
        for pod, target in pods.items():
            nonce = next_nonce()
            try:
                sock.sendto(nonce, target)
            except OSError as error:
                self._control.lost(self._client, self._family, [pod], _named(error))
            else:
                self._open[nonce] = pod
        if self._open:
            self._reactor.at(time.monotonic() + LIMIT * time_scale(), self)
        else:
            self._finish()

    def ready(self) -> None:
        while self._socket is not None and self._open:
            try:
                answer = self._socket.recv(LONGEST_LINE)
            except BlockingIOError:
                return
            except OSError:  # an ICMP error: no answer will arrive, and the time limit ends the round
                continue
            self._open.pop(answer.partition(b" ")[0], None)
        self._finish()

    def expired(self, _now: float) -> None:
        self._control.lost(self._client, self._family, self._open.values(), "")
        self._finish()

    def give_up(self, why: str) -> None:
        """Do nothing, because a fault of the harness ends all judged probes as `Unknown`."""

    def drop(self) -> None:
        self.done = True
        sock, self._socket = self._socket, None
        if sock is not None:
            self._reactor.forget(sock.fileno())
            sock.close()

    def _finish(self) -> None:
        self.drop()
        self._control.answered(self)


class ConcurrentControlProbes:
    """Sends control probes during a `with` block, while another thread sends the actual request."""

    def __init__(self, probe: Probe, *, targets: ControlTargets, reactor: Reactor) -> None:
        """`probe` only specifies the client and the IP family. It is not sent."""
        self._probe = probe
        self._control = ControlProbes(targets=targets, reactor=reactor, missing=once(probe))
        self._reactor = reactor

    def fault(self) -> str:
        """Return the fault that control probes found, or "". Call this method only once. Raises `InconclusiveError`."""

        def conclude(result: Future[str]) -> None:
            self._control.conclude(partial(self._reactor.finish, result), [self._probe])

        return self._reactor.run(conclude, within=LIMIT * time_scale(), what="control probes")

    def __enter__(self) -> Self:
        self._reactor.call(self._control.begin)
        return self

    def __exit__(self, *_: object) -> None:
        self._reactor.call(self._control.end)


def _family(probe: Probe) -> int:
    return socket.AF_INET6 if ":" in probe.address else socket.AF_INET


def _named(error: OSError) -> str:
    return f" ({errno.errorcode.get(error.errno or 0, 'OSError')})"


def is_missing(observation: Observation) -> bool:
    return not isinstance(observation, Reached)


def excused(observation: Observation, why: str) -> Observation:
    """Return the observation, or `Unknown` with the fault `why` if the observation is a timeout or a refusal."""
    match observation:
        case TimedOut():
            return Unknown(f"it got no answer, and {why}")
        case Refused(how):
            return Unknown(f"it was refused{f' ({how})' if how else ''}, and {why}")
    return observation
