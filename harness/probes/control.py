"""Control probes: straight to each pod, from the netns of each client, around the Service that is judged.

A pod that hears nothing for a second, a client without its route, or a machine whose connection tracking is full looks
like a proxy that drops. So `EVERY` so often, whatever was asked a moment ago and is not answered yet gets a round of
questions that no Service is asked: UDP, from its client to the pods' own addresses. A fault is met while it lasts,
though nobody knows of the loss before its time limit; and while all is well, there are no control probes, nor
connections that nodes would track for them. Where one was lost, a missing answer beside it is `Unknown`: it says
nothing of the proxy. An answer by the wrong pod stays wrong, whatever was lost.

Of a fault that is shorter than `EVERY` twice over nothing may be seen. All of this belongs to the thread of the loop.
"""

from __future__ import annotations

import errno
import itertools
import socket
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Protocol

from harness.errors import HarnessError
from harness.eventually import time_scale
from harness.model.outcomes import Observation, Reached, Refused, TimedOut, Unknown
from harness.probes.probe import LONGEST_LINE, Probe, SocketSource, bind_unused, next_nonce
from harness.probes.reactor import Reactor

EVERY = 0.05
"""Seconds after which a missing answer gets a round, at most twice as many."""
LIMIT = 0.25
"""Seconds, before the time scale, without an answer after which a control probe counts as lost."""
MOST = 64
"""Control probes of one round; with more clients and pods than that they take turns."""
_TOLD = 3  # lost ones in a sentence

Pair = tuple[str, str]
"""The name of a client and of a pod."""


class Ground(Protocol):
    """What there is around the judged path."""

    def who(self, client: SocketSource) -> str:
        """Return the name of the client with this netns; "" for one that is gone or cut off on purpose."""

    def pods(self, family: int) -> Mapping[str, tuple[str, int]]:
        """Return by name the address and UDP port of each pod that is to be reached straight, as of now."""

    def overflows(self) -> Callable[[], int]:
        """Return what tells for how many connections the tracking of the nodes has had no room since."""


class Bare:
    """Nothing is known of what there is around the path, so there are no control probes."""

    def who(self, client: SocketSource) -> str:  # noqa: ARG002
        """Return "": nobody is known."""
        return ""

    def pods(self, family: int) -> Mapping[str, tuple[str, int]]:  # noqa: ARG002
        """Return no pod."""
        return {}

    def overflows(self) -> Callable[[], int]:
        """Return what tells 0."""
        return int


class Unanswered:
    """Counts along what was asked, so that each answer that is missing gets a round, after it had time to come."""

    def __init__(self) -> None:
        self._looked_at = self._asked = 0

    def look(self, asked: int) -> range:
        """Return what had been asked at the look before this one, and no earlier; by now it is so much."""
        begin, self._looked_at, self._asked = self._looked_at, self._asked, asked
        return range(begin, self._looked_at)

    def rest(self, asked: int) -> range:
        """Return what no look has returned."""
        return range(self._looked_at, asked)


def once(probe: Probe) -> Callable[[], list[Probe]]:
    """Return what returns a probe the first time, and nothing from then on."""
    left = [probe]
    return lambda: [left.pop()] if left else []


class Control:
    """The control probes for answers that are missing; a round after the other, until `conclude` or `end`."""

    def __init__(self, *, ground: Ground, reactor: Reactor, missing: Callable[[], Iterable[Probe]]) -> None:
        """`missing` returns, `EVERY` so often, what was asked before it was called last and lacks an answer."""
        self._ground = ground
        self._reactor = reactor
        self._missing = missing
        self._turns: dict[tuple[int, int], Iterator[int]] = {}
        self._overflows: Callable[[], int] = int
        self._lost: dict[Pair, str] = {}
        self._under_way: set[_Asker] = set()
        self._report: Callable[[str], None] | None = None
        self.done = False

    def begin(self) -> None:
        """Begin to watch."""
        self._overflows = self._ground.overflows()
        self._reactor.at(time.monotonic() + EVERY, self)

    def expired(self, now: float) -> None:
        """Send a round for the answers that are missing."""
        self._round(self._missing())
        self._reactor.at(now + EVERY, self)

    def end(self) -> None:
        """End without a result. Idempotent."""
        self.done = True
        for each in list(self._under_way):
            each.drop()

    def conclude(self, report: Callable[[str], None], missing: Iterable[Probe]) -> None:
        """Call `report` when all control probes are answered or lost, with what was wrong: "" for nothing.

        What is `missing` only now gets a last round before.
        """
        self.done = True
        self._round(missing)
        self._report = report
        self._settle()

    def answered(self, asker: _Asker) -> None:
        """Forget a client's questions: each has its answer, or is lost."""
        self._under_way.discard(asker)
        self._settle()

    def lost(self, client: SocketSource, family: int, pods: Iterable[str], why: str) -> None:
        """Take down lost questions, without those of whom is no more, or off, by now."""
        name, there = self._ground.who(client), self._ground.pods(family)
        if name:
            self._lost.update({(name, pod): why for pod in pods if pod in there})

    def _round(self, missing: Iterable[Probe]) -> None:
        """Ask from the netns of each client that lacks an answer."""
        clients = {(id(each.namespace), _family(each)): each.namespace for each in missing}
        most = max(1, MOST // max(1, len(clients)))
        for key, client in clients.items():
            family = key[1]
            pods = self._ground.pods(family) if self._ground.who(client) else {}
            if pods:
                asker = _Asker(self, client, family, self._reactor)
                self._under_way.add(asker)
                asker.ask(self._some(key, pods, most))

    def _some(
        self, key: tuple[int, int], pods: Mapping[str, tuple[str, int]], most: int
    ) -> Mapping[str, tuple[str, int]]:
        """Return the pods whose turn it is, which are all of them unless there are very many."""
        if len(pods) <= most:
            return pods
        turn = next(self._turns.setdefault(key, itertools.count(0, most))) % len(pods)
        return dict(itertools.islice(itertools.cycle(pods.items()), turn, turn + most))

    def _settle(self) -> None:
        if self._report is not None and not self._under_way:
            report, self._report = self._report, None
            report(self._what_was_wrong())

    def _what_was_wrong(self) -> str:
        full = self._overflows()
        if full > 0:
            return f"the connection tracking of this machine was full: it had no room for {full} connections"
        if not self._lost:
            return ""
        told = [f"from {client} to pod {pod}{why}" for (client, pod), why in sorted(self._lost.items())]
        more = [f"{len(told) - _TOLD} more"] if len(told) > _TOLD else []
        return f"control probes around the Service were lost too: {', '.join(told[:_TOLD] + more)}"


class _Asker:
    """The questions of one client in one round, each by a nonce of its own, from one socket and a fresh port."""

    __slots__ = ("_client", "_control", "_family", "_open", "_reactor", "_socket", "done")

    def __init__(self, control: Control, client: SocketSource, family: int, reactor: Reactor) -> None:
        self._control = control
        self._client = client
        self._family = family
        self._reactor = reactor
        self._socket: socket.socket | None = None
        self._open: dict[bytes, str] = {}
        self.done = False

    def ask(self, pods: Mapping[str, tuple[str, int]]) -> None:
        """Send a question to each of these pods."""
        try:
            sock = self._client.socket(self._family, socket.SOCK_DGRAM | socket.SOCK_NONBLOCK | socket.SOCK_CLOEXEC)
        except (OSError, HarnessError) as error:
            self._control.lost(self._client, self._family, pods, f" ({error})")
            self._finish()
            return
        self._socket = sock
        self._reactor.watch(sock.fileno(), self)
        try:
            bind_unused(sock)
        except OSError as error:
            self._control.lost(self._client, self._family, pods, _named(error))
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
            except OSError:  # an ICMP error; the question has no answer, and its time will end
                continue
            self._open.pop(answer.partition(b" ")[0], None)
        self._finish()

    def expired(self, _now: float) -> None:
        self._control.lost(self._client, self._family, self._open.values(), "")
        self._finish()

    def give_up(self, why: str) -> None:
        """Ignore it: the probes beside it are unknown anyhow."""

    def drop(self) -> None:
        self.done = True
        sock, self._socket = self._socket, None
        if sock is not None:
            self._reactor.forget(sock.fileno())
            sock.close()

    def _finish(self) -> None:
        self.drop()
        self._control.answered(self)


def _family(probe: Probe) -> int:
    return socket.AF_INET6 if ":" in probe.address else socket.AF_INET


def _named(error: OSError) -> str:
    return f" ({errno.errorcode.get(error.errno or 0, 'OSError')})"


def is_missing(observation: Observation) -> bool:
    """Return whether there is no answer, so far or at all."""
    return not isinstance(observation, Reached)


def excused(observation: Observation, why: str) -> Observation:
    """Return an observation beside which this was wrong: of a missing answer nothing is known then."""
    match observation:
        case TimedOut():
            return Unknown(f"it got no answer, and {why}")
        case Refused(how):
            return Unknown(f"it was refused{f' ({how})' if how else ''}, and {why}")
    return observation


def excuse(observations: Sequence[Observation], why: str) -> list[Observation]:
    """Return observations, each as `excused` has it; as they are if nothing was wrong."""
    return [excused(each, why) for each in observations] if why else list(observations)
