"""Sends probes from client pods. One `GET /dial` to agnhost, through the API server's pod proxy, makes many attempts.

agnhost waits five seconds for a connection, and the kernel retransmits a lost SYN several times in that time. So
agnhost alone would not detect a proxy that drops half of all first packets. A slow request proves nothing, because the
API server may be slow, too. So after each request that took a second or more, the dialer reads the client pod's count
of retransmitted SYNs. For each retransmission that no unanswered attempt explains, one answer counts as a timeout.
"""

import threading
import time
from collections.abc import Callable, Collection, Mapping, Sequence
from concurrent.futures import Future
from dataclasses import dataclass, replace
from urllib.parse import urlencode

from harness.api.client import Api, Response
from harness.backends.any_cluster.agnhost_output import UNREPORTED, Reader, address_seen, connected, outcomes_of
from harness.backends.any_cluster.earlier_flows import PORT_RANGE, Path, TcpFlows, UdpFlows, of_new_flows, ports_of
from harness.backends.any_cluster.pods import ClientPod, identity
from harness.backends.any_cluster.repeated_syns import FULL_WAIT, NETSTAT, RepeatedSyns
from harness.backends.any_cluster.request_pool import BeginWatch, RequestPool
from harness.errors import InconclusiveError
from harness.model.outcomes import TIMED_OUT, Observation, Reached, Refused, Unknown
from harness.probes.loop import Probe, SentProbe
from harness.probes.probe import REPEATED_SYN

TRIES = 20  # attempts per request: an attempt takes 1 ms, a request through the API server takes 10 ms
STEADY_TRIES = 10  # attempts per request of steady traffic: fewer attempts make the time of an answer more precise
THREADS = 600  # attempts without an answer run concurrently, because each of them waits
OVERHEAD = 15.0  # seconds that the API server may add to agnhost's time
GLANCE = 1.0  # like `OVERHEAD`, for `glance`
PENDING = 100  # maximum number of late glances: with more of them, a slow API server would answer none
ROUNDS = 4  # how often unanswered attempts are repeated that may have reused a source port

_NO_ROUTE = "ENETUNREACH: the client may have no route, because it has not yet got an answer over this IP family"
_MET = Unknown("an earlier unanswered attempt may have had the same source port")


@dataclass(frozen=True, slots=True)
class DialResult:
    """The outcomes of one request's attempts in no particular order, and the request's duration in seconds."""

    outcomes: list[Observation]
    seconds: float


Bypass = Callable[[ClientPod, str, float], Response]
"""Sends a GET request for a path and query to a client pod, bypassing the API server. Raises `InconclusiveError`."""

Neighbours = Callable[[ClientPod], Sequence[ClientPod]]
"""Returns spare client pods on a client's node. They can repeat a probe from other source addresses."""


class Dialer:
    """Sends probes from client pods. Each backend has one dialer. Thread-safe."""

    def __init__(
        self, api: Api, watch: BeginWatch, *, bypass: Bypass | None = None, neighbours: Neighbours = lambda _: ()
    ) -> None:
        """`watch` checks nodes while answers are late. `neighbours` returns pods that can repeat a probe."""
        self._bypass = bypass
        self._neighbours = neighbours
        self._api = api
        self._pool = RequestPool(THREADS, watch)
        self._syns = RepeatedSyns(lambda client: self._shell(client, NETSTAT))
        self._flows, self._tcp_flows = UdpFlows(), TcpFlows()
        self._routed: set[tuple[ClientPod, bool]] = set()  # clients that received an answer, and whether over IPv6
        self._ports: dict[ClientPod, int] = {}  # the number of source ports that each client can use
        self._glances: list[threading.Thread] = []  # threads that may still be running

    def close(self) -> None:
        self._pool.close()

    def probe(self, probes: Sequence[Probe], read: Reader = identity) -> list[Observation]:
        """Send probes, and return their outcomes (those of equal probes in any order). If an earlier flow may have
        caused an outcome, repeat the probe or return `Unknown` (see `earlier_flows`). Raises `UnavailableError`.
        """
        begin = time.monotonic()
        outcomes = self._probe(probes, read)
        for probe, indices in _by_probe(probes).items():
            seen = [outcomes[index] for index in indices]
            if probe.protocol == "TCP":
                judged = self._of_new_connections(probe, seen, begin, read)
            else:
                judged = self._of_new_flows(probe, seen) if read is identity else seen
            for index, outcome in zip(indices, judged, strict=True):
                outcomes[index] = outcome
        return outcomes

    def _of_new_connections(
        self, probe: Probe, seen: Sequence[Observation], begin: float, read: Reader
    ) -> Sequence[Observation]:
        doubtful = self._tcp_flows.doubtful(_path(probe), begin, len(seen))
        if not doubtful:
            return seen
        neighbours = [replace(probe, namespace=each) for each in self._neighbours(_client(probe))]
        if not neighbours:
            return _without(seen, doubtful)
        now = time.monotonic()
        witness = next((each for each in neighbours if not self._tcp_flows.earlier(_path(each), now)), None)
        of_witness = self._probe([witness] * len(seen), read) if witness else [TIMED_OUT]
        if TIMED_OUT in of_witness:  # unanswered without an earlier connection: a real loss
            return seen
        judged = _without(seen, doubtful)
        if any(isinstance(each, Unknown) for each in of_witness):
            return judged
        for _ in range(ROUNDS):
            unknown = [index for index, each in enumerate(judged) if each in (_MET, UNREPORTED)]
            for index, again in zip(unknown, self._probe([probe] * len(unknown), read), strict=True):
                judged[index] = _MET if again == TIMED_OUT else again
        return judged

    def _of_new_flows(self, probe: Probe, seen: Sequence[Observation]) -> list[Observation]:
        earlier = self._flows.earlier(_path(probe))
        self._note(probe, seen)
        if not earlier.keys() & set(seen):
            return list(seen)

        def ask(count: int) -> list[Observation]:
            more = self._probe([probe] * count, identity)
            self._note(probe, more)
            return more

        return of_new_flows(seen, earlier, self._ports_of(_client(probe)), ask)

    def _probe(self, probes: Sequence[Probe], read: Reader) -> list[Observation]:
        places = _by_probe(probes)
        for client in {_client(probe) for probe in places}:
            self._syns.begin(client, alone=not client.on_host)
        first = dict(self._pool.each(lambda each: self._dial(each, 1, read), list(places)))
        work = []
        seen = {probe: [dialed] for probe, dialed in first.items()}
        for probe, indices in places.items():
            rest = len(indices) - 1
            if isinstance(first[probe].outcomes[0], Unknown):  # a client that cannot send must not retry for minutes
                seen[probe].append(DialResult([first[probe].outcomes[0]] * rest, 0.0))
                continue
            size = TRIES if isinstance(first[probe].outcomes[0], Reached) else 1
            work += [(probe, min(size, rest - done)) for done in range(0, rest, size)]
        for (probe, _), dialed in self._pool.each(lambda each: self._dial(each[0], each[1], read), work):
            seen[probe].append(dialed)
        doubted = self._ask_again(seen, self._doubted(seen), read)
        outcomes: list[Observation] = [Unknown("not asked")] * len(probes)
        for probe, indices in places.items():
            for index, outcome in zip(indices, self._counted(probe, seen[probe], doubted), strict=True):
                outcomes[index] = outcome
        return outcomes

    def _doubted(self, seen: Mapping[Probe, Sequence[DialResult]]) -> set[ClientPod]:
        """Return host-network clients with late answers and retransmitted SYNs, which another client may have sent."""
        late = {_client(probe) for probe, dialed in seen.items() if _client(probe).on_host and _are_late(probe, dialed)}
        return {client for client in late if self._syns.lost(client)}

    def _ask_again(self, seen: dict[Probe, list[DialResult]], doubted: set[ClientPod], read: Reader) -> set[ClientPod]:
        """Repeat late requests of `doubted` clients, one attempt per request. Return the clients still in doubt."""
        for probe in [each for each in seen if _client(each) in doubted]:
            seen[probe] = [again for dialed in seen[probe] for again in self._one_by_one(probe, dialed, read)]
        return self._doubted({probe: dialed for probe, dialed in seen.items() if _client(probe) in doubted})

    def _one_by_one(self, probe: Probe, dialed: DialResult, read: Reader) -> list[DialResult]:
        if not _are_late(probe, [dialed]):
            return [dialed]
        kept: list[Observation] = [each for each in dialed.outcomes if not isinstance(each, Reached)]
        again = len(dialed.outcomes) - len(kept)
        return [DialResult(kept, 0.0), *(self._dial(probe, 1, read) for _ in range(again))]

    def glance(self, probes: Sequence[Probe]) -> list[Observation]:
        """Send probes, and return their outcomes within a short time limit. A slower answer counts as a timeout."""
        self._glances = [each for each in self._glances if each.is_alive()]
        for each in self._glances[:-PENDING]:
            each.join()
        seen = dict(self._pool.each(lambda each: self._dial_briefly(probes[each]), range(len(probes))))
        return [seen[each].outcomes[0] for each in range(len(probes))]

    def _dial_briefly(self, probe: Probe) -> DialResult:
        """Make one attempt. A late outcome is recorded too, because the SYN may still be retransmitted."""
        limit, answer = probe.timeout + GLANCE, Future[DialResult]()

        def look() -> None:
            try:
                dialed = self._dial(probe, 1, identity, is_judged=False)
                self._note(probe, dialed.outcomes)
                answer.set_result(dialed)
            except BaseException as error:  # noqa: BLE001  raised where it is waited for
                answer.set_exception(error)

        thread = threading.Thread(target=look, name="glance", daemon=True)
        self._glances.append(thread)
        thread.start()
        try:
            return answer.result(limit)
        except TimeoutError:
            return DialResult([TIMED_OUT], limit)

    def begin(self, probe: Probe) -> None:
        """Ignore the packets that the probe's client has lost so far. Call this before the first `dial`."""
        self._syns.begin(_client(probe), alone=False)

    def dial(self, probe: Probe, tries: int) -> DialResult:
        begin = time.monotonic()
        dialed = self._dial(probe, tries, identity)
        self._note(probe, dialed.outcomes)
        outcomes = self._counted(probe, [dialed], self._doubted({probe: [dialed]}))
        doubtful = self._tcp_flows.doubtful(_path(probe), begin, tries) if tries > 1 else 0
        return DialResult(_without(outcomes, doubtful), dialed.seconds)

    def _note(self, probe: Probe, outcomes: Sequence[Observation]) -> None:
        if probe.protocol == "UDP":
            self._flows.note(_path(probe), outcomes)

    def get(self, client: ClientPod, address: str, port: int, path: str) -> str:
        """Send a GET request, and return the body of any response. Raises `OSError` if there is no response."""
        query = _query("http", address, port, path.lstrip("/"), 1)
        response = self._ask(client, "dial", query, FULL_WAIT + OVERHEAD)
        if response.body.get("responses"):
            return str(response.body["responses"][0])
        raise OSError(str((response.body.get("errors") or [response.body.get("message", "")])[0]))

    def connect(self, probe: Probe) -> Observation:
        """Open and close a TCP connection without sending data. The outcome is `Reached("")` on success."""
        target = f"[{probe.address}]:{probe.port}" if ":" in probe.address else f"{probe.address}:{probe.port}"
        command = f"/agnhost connect {target} --timeout={probe.timeout:.0f}s"
        sent = self._syns.sent(_client(probe), 1)
        try:
            response = self._ask(_client(probe), "shell", {"cmd": command}, probe.timeout + OVERHEAD)
        finally:
            self._syns.ended(_client(probe), sent, 1)
        outcome = connected(response)
        self._tcp_flows.note(_path(probe), sent.begin, int(outcome == TIMED_OUT))
        return outcome

    def _dial(self, probe: Probe, tries: int, read: Reader, *, is_judged: bool = True) -> DialResult:
        """Send one request. If `is_judged` is false, its retransmitted SYNs do not count as lost packets."""
        client = _client(probe)
        request = "clientip" if read is address_seen else "hostname"
        protocol = "udp" if probe.protocol == "UDP" else "http"
        sent = self._syns.sent(client, tries) if probe.protocol == "TCP" else None
        unanswered, silent, goes_on = tries, tries, FULL_WAIT
        begin = time.monotonic()
        try:
            query = _query(protocol, probe.address, probe.port, request, tries)
            response = self._ask(client, "dial", query, tries * FULL_WAIT + OVERHEAD)
            seconds = time.monotonic() - begin
            dialed = DialResult(self._confirmed(probe, outcomes_of(response, tries, read, client), seconds), seconds)
            if response.code == 200:
                silent, goes_on = dialed.outcomes.count(TIMED_OUT), 0.0
                unanswered = silent if is_judged else tries
        except InconclusiveError as error:
            dialed = DialResult([Unknown(str(error))] * tries, time.monotonic() - begin)
        finally:
            if sent is not None:
                self._syns.ended(client, sent, unanswered, goes_on=goes_on)
                self._tcp_flows.note(_path(probe), begin, silent)
        return dialed

    def _confirmed(self, probe: Probe, outcomes: list[Observation], seconds: float) -> list[Observation]:
        """Replace refusals that a missing route on the client or failed ARP or NDP (after 3 s) may have caused."""
        family = _client(probe), ":" in probe.address
        if any(isinstance(each, Reached) for each in outcomes):
            self._routed.add(family)

        def corrected(outcome: Observation) -> Observation:
            match outcome:
                case Refused(how="ENETUNREACH") if family not in self._routed:
                    return Unknown(_NO_ROUTE)
                case Refused(how="EHOSTUNREACH") if seconds >= REPEATED_SYN:
                    return TIMED_OUT
            return outcome

        return [corrected(each) for each in outcomes]

    def _ask(self, client: ClientPod, path: str, query: Mapping[str, str], limit: float) -> Response:
        begin = time.monotonic()
        place = f"/api/v1/namespaces/{client.namespace}/pods/{client.name}:{client.port}/proxy/{path}"
        try:
            answer = self._api.request("GET", place, query=query, timeout=limit)
            if self._bypass is None or answer.code == 200:
                return answer
        except InconclusiveError:
            if self._bypass is None or time.monotonic() - begin >= limit:
                raise
        return self._bypass(client, f"{path}?{urlencode(query)}", limit)

    def _counted(self, probe: Probe, seen: Sequence[DialResult], doubted: Collection[ClientPod]) -> list[Observation]:
        """Return all outcomes. An answer to a retransmitted SYN becomes a timeout (host-network clients: `Unknown`)."""
        outcomes = [outcome for each in seen for outcome in each.outcomes]
        if not _are_late(probe, seen):
            return outcomes
        if _client(probe).on_host:
            return [outcome for each in seen for outcome in _cautious(each)] if _client(probe) in doubted else outcomes
        hidden = sum(int(each.seconds // REPEATED_SYN) for each in seen)  # each lost packet delays a request by 1 s
        lost = min(self._syns.lost(_client(probe)), hidden)
        made: list[Observation] = []
        for outcome in outcomes:
            late = lost > 0 and isinstance(outcome, Reached)
            lost -= late
            made.append(TIMED_OUT if late else outcome)
        return made

    def _ports_of(self, client: ClientPod) -> int:
        if client not in self._ports:
            output = self._shell(client, PORT_RANGE)
            try:
                self._ports[client] = ports_of(output)
            except ValueError:
                raise InconclusiveError(f"pod {client.name} does not report its port range: {output[:200]!r}") from None
        return self._ports[client]

    def _shell(self, client: ClientPod, command: str) -> str:
        response = self._ask(client, "shell", {"cmd": command}, FULL_WAIT + OVERHEAD)
        return str(response.body.get("output", ""))


class SteadyProbes:
    """Sends steady traffic: one thread per probe sends small batches until `stop` is called. The threads start one by
    one, because hundreds of simultaneous requests would delay each other's answers. While a client gets no answers,
    each request has only one attempt, so that retransmitted SYNs do not count as lost packets of other probes.
    """

    def __init__(self, dialer: Dialer, interval: float, probes: Sequence[Probe]) -> None:
        self._dialer = dialer
        self._interval = interval
        self._count = len(probes)
        self._samples: list[SentProbe] = []
        self._ended = threading.Event()
        self._threads = [
            threading.Thread(target=self._ask, args=(number, probe), name=f"steady-{number}", daemon=True)
            for number, probe in enumerate(probes)
        ]
        for thread in self._threads:
            thread.start()

    @property
    def asked(self) -> int:
        return len(self._samples)

    def stop(self) -> list[SentProbe]:
        self._ended.set()
        for thread in self._threads:
            thread.join()
        return sorted(self._samples, key=lambda sample: sample.at)

    def _ask(self, number: int, probe: Probe) -> None:
        if self._ended.wait(STEADY_TRIES * self._interval * number / self._count):
            return
        self._dialer.begin(probe)
        tries = 1
        while not self._ended.is_set():
            begin = time.monotonic()
            dialed = self._dialer.dial(probe, tries)
            step = (time.monotonic() - begin) / tries
            # agnhost does not report which attempt had which outcome, so unanswered attempts are sorted first.
            ordered = sorted(dialed.outcomes, key=lambda outcome: outcome != TIMED_OUT)
            self._samples += [
                SentProbe(begin + index * step, outcome, number, step) for index, outcome in enumerate(ordered)
            ]
            self._ended.wait(begin + tries * self._interval - time.monotonic())
            tries = 1 if TIMED_OUT in dialed.outcomes else STEADY_TRIES


def _are_late(probe: Probe, seen: Sequence[DialResult]) -> bool:
    """Return whether a TCP answer was so late that it may belong to a retransmitted SYN."""
    slow = [each for each in seen if each.seconds >= REPEATED_SYN]
    return probe.protocol == "TCP" and any(isinstance(outcome, Reached) for each in slow for outcome in each.outcomes)


def _cautious(dialed: DialResult) -> list[Observation]:
    if dialed.seconds < REPEATED_SYN:
        return dialed.outcomes
    why = f"an answer took {dialed.seconds:.1f} s: on a node's network this may be a lost first packet"
    return [Unknown(why) if isinstance(each, Reached) else each for each in dialed.outcomes]


def _without(outcomes: Sequence[Observation], doubtful: int) -> list[Observation]:
    made: list[Observation] = []
    for outcome in outcomes:
        met = doubtful > 0 and outcome == TIMED_OUT
        doubtful -= met
        made.append(_MET if met else outcome)
    return made


def _client(probe: Probe) -> ClientPod:
    assert isinstance(probe.namespace, ClientPod)
    return probe.namespace


def _by_probe(probes: Sequence[Probe]) -> dict[Probe, list[int]]:
    places: dict[Probe, list[int]] = {}
    for index, probe in enumerate(probes):
        places.setdefault(probe, []).append(index)
    return places


def _path(probe: Probe) -> Path:
    return _client(probe), probe.address, probe.port


def _query(protocol: str, address: str, port: int, request: str, tries: int) -> dict[str, str]:
    return {"host": address, "port": str(port), "protocol": protocol, "request": request, "tries": str(tries)}
