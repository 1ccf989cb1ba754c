"""Probes made by client pods: `GET /dial` of agnhost, many tries a request, by way of the API server's pod proxy.

agnhost gives a connection five seconds, in which the kernel repeats a lost SYN after one second: by itself it would
call a proxy sound that drops half of all first packets. So the time that a request takes is evidence too. Among tries
of some milliseconds each second more stands for a packet that was lost, and counts as one try without answer; a try
alone has the probe's own time limit.
"""

from __future__ import annotations

import re
import socket
import statistics
import time
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any

from harness.api import Api, Response
from harness.errors import InconclusiveError, UnavailableError
from harness.outcomes import REFUSED, TIMED_OUT, Observation, Reached, Unknown
from harness.probes.loop import Probe

TRIES = 20  # in one request: an answer takes a millisecond, a request by way of the API server ten
THREADS = 64
OVERHEAD = 1.0  # seconds that a request may take by way of the API server, on top of what is asked for
REPEATED_SYN = 1.0  # seconds after which the kernel sends a SYN again
FULL_WAIT = 5.0  # seconds that agnhost waits for an answer
SEPARATOR = "--"  # between the name of a pod and its namespace, in its hostname

_ADDRESS = re.compile(r"\[?([0-9A-Fa-f.:]+?)\]?:\d+")
_REFUSED = ("connection refused", "connection reset by peer")
_TIMED_OUT = ("i/o timeout", "context deadline exceeded", "Client.Timeout", "connection timed out")


@dataclass(frozen=True, slots=True)
class ClientPod:
    """A pod that asks: where its own server is reached. Sockets cannot be made in it."""

    namespace: str
    name: str
    port: int

    def socket(self, family: int, kind: int, proto: int = 0, /) -> socket.socket:  # noqa: ARG002
        """Raises `UnavailableError`."""
        raise UnavailableError(f"pod {self.namespace}/{self.name} is on another machine: no socket can be made in it")


@dataclass(frozen=True, slots=True)
class Dialed:
    """What came of one request: an outcome for each try, in no order; how long it took, in seconds."""

    outcomes: list[Observation]
    seconds: float


Reader = Callable[[str], Observation]
"""What an answer says."""


def hostname(namespace: str, pod: str) -> str:
    """The hostname of a server pod, which tells it from all others of the run. At most 63 characters."""
    name = f"{pod}{SEPARATOR}{namespace}"
    if len(name) > 63:
        raise UnavailableError(f"{name} is longer than the 63 characters that a hostname may have")
    return name


def identity(answer: str) -> Observation:
    """Who answered: `Reached` "namespace/pod", or `Unknown` for a stranger."""
    pod, found, namespace = answer.strip().partition(SEPARATOR)
    if not found or not pod or not namespace.startswith("td-"):
        return Unknown(f"a stranger answered: {answer.strip()[:60]!r}")
    return Reached(f"{namespace}/{pod}")


def address_seen(answer: str) -> Observation:
    """From which address a server was asked."""
    found = _ADDRESS.fullmatch(answer.strip())
    return Reached("", found[1]) if found else Unknown(f"a stranger answered: {answer.strip()[:60]!r}")


def from_text(error: str) -> Observation:
    """What an error of Go's network libraries says of the way to the server."""
    if any(each in error for each in _REFUSED):
        return REFUSED
    return TIMED_OUT if any(each in error for each in _TIMED_OUT) else Unknown(error[:200])


class Dialer:
    """Has client pods ask. One for a backend; methods may be called from any thread."""

    def __init__(self, api: Api) -> None:
        self._api = api
        self._pool = ThreadPoolExecutor(THREADS, thread_name_prefix="dial")

    def close(self) -> None:
        """Wait for what is under way, and end the threads."""
        self._pool.shutdown(cancel_futures=True)

    def probe(self, probes: Sequence[Probe], read: Reader = identity) -> list[Observation]:
        """What came of each probe; outcomes of equal probes come in any order."""
        places: dict[Probe, list[int]] = {}
        for index, probe in enumerate(probes):
            places.setdefault(probe, []).append(index)
        first = dict(zip(places, self._pool.map(lambda each: self._one(each, read), places), strict=True))
        work = []
        for probe, indices in places.items():
            rest = len(indices) - 1
            size = TRIES if isinstance(first[probe], Reached) else 1
            work += [(probe, min(size, rest - done)) for done in range(0, rest, size)]
        done = self._pool.map(lambda each: (each[0], self._dial(each[0], each[1], read)), work)
        seen: dict[Probe, list[Dialed]] = {probe: [] for probe in places}
        for probe, dialed in done:
            seen[probe].append(dialed)
        outcomes: list[Observation] = [Unknown("not asked")] * len(probes)
        for probe, indices in places.items():
            found = [first[probe], *_counted(seen[probe])]
            for index, outcome in zip(indices, found, strict=True):
                outcomes[index] = outcome
        return outcomes

    def dial(self, probe: Probe, tries: int) -> Dialed:
        """Ask so often, one after the other, and count what was lost."""
        dialed = self._dial(probe, tries, identity)
        return Dialed(_counted([dialed]), dialed.seconds)

    def get(self, client: ClientPod, address: str, port: int, path: str) -> str:
        """The body of the answer to GET `path`, whatever its status. Raises `OSError` when there is none."""
        response = self._ask(client, _query("http", address, port, path.lstrip("/"), 1), FULL_WAIT + OVERHEAD)
        said = _said(response)
        if said.get("responses"):
            return str(said["responses"][0])
        raise OSError(str((said.get("errors") or [response.body.get("message", "")])[0]))

    def _one(self, probe: Probe, read: Reader) -> Observation:
        return self._dial(probe, 1, read).outcomes[0]

    def _dial(self, probe: Probe, tries: int, read: Reader) -> Dialed:
        """One request. A try that does not come back in time has timed out; of several, one has for certain."""
        assert isinstance(probe.namespace, ClientPod)
        request = "clientip" if read is address_seen else "hostname"
        protocol = "udp" if probe.protocol == "UDP" else "http"
        limit = tries * probe.timeout + OVERHEAD
        begin = time.monotonic()
        try:
            response = self._ask(probe.namespace, _query(protocol, probe.address, probe.port, request, tries), limit)
        except InconclusiveError as error:
            if time.monotonic() - begin < limit:
                return Dialed([Unknown(str(error))] * tries, 0.0)
            unknown = Unknown(f"a request of {tries} tries did not end within {limit:g} s")
            return Dialed([TIMED_OUT, *[unknown] * (tries - 1)], 0.0)
        said = _said(response)
        answers, errors = said.get("responses") or (), said.get("errors") or ()
        outcomes = [*map(read, answers), *map(from_text, errors)]
        if len(outcomes) != tries:
            why = response.body.get("message") or f"{len(outcomes)} outcomes of {tries} tries"
            outcomes = [Unknown(f"pod {probe.namespace.name} could not ask: {response.code} {why}"[:300])] * tries
        return Dialed(outcomes, time.monotonic() - begin)

    def _ask(self, client: ClientPod, query: Mapping[str, str], limit: float) -> Response:
        path = f"/api/v1/namespaces/{client.namespace}/pods/{client.name}:{client.port}/proxy/dial"
        return self._api.request("GET", path, query=query, timeout=limit)


def _query(protocol: str, address: str, port: int, request: str, tries: int) -> dict[str, str]:
    return {"host": address, "port": str(port), "protocol": protocol, "request": request, "tries": str(tries)}


def _said(response: Response) -> Mapping[str, Any]:
    """agnhost's answer; it is 417 when the last try failed."""
    return response.body if response.code in (200, 417) else {}


def _counted(seen: Sequence[Dialed]) -> list[Observation]:
    """All outcomes; for each second that a request took longer than others, one answer counts as none."""
    usual = statistics.median([each.seconds for each in seen]) if len(seen) > 2 else 0.0
    found: list[Observation] = []
    for each in seen:
        known = FULL_WAIT * sum(outcome == TIMED_OUT for outcome in each.outcomes)
        lost = int((each.seconds - known - min(usual, REPEATED_SYN / 2)) / REPEATED_SYN)
        for outcome in each.outcomes:
            if lost > 0 and isinstance(outcome, Reached):
                lost -= 1
                found.append(TIMED_OUT)
            else:
                found.append(outcome)
    return found


__all__ = ["ClientPod", "Dialed", "Dialer", "address_seen", "hostname", "identity"]
