"""Describe the difference between the observations and the expectations of a failed scenario. Requirements that fail
with the same difference probably fail for the same reason. A difference states what happened to connections (such as
"leave the client's zone"), and under which conditions. It names no pod or Service.
"""

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from harness.judging.case_events import CaseEvents, ComparedValues, WindowRecord
from harness.judging.timeline import Change
from harness.judging.verdict import AnyOf, CellMark, EqualShares, Verdict, grid, pods_of
from harness.model.outcomes import Refused, TimedOut

LEFT_NODE = "leave the client's node, although it has the expected endpoints"
LEFT_ZONE = "leave the client's zone, although it has the expected endpoints"
HINTED_ELSEWHERE = "reach endpoints that are hinted for other places"
UNREADY = "reach endpoints that are not ready"
TERMINATING = "reach terminating endpoints that are not expected"
REMOVED = "reach removed endpoints"
OTHERS = "reach endpoints that are not expected"
NARROW = "stay in the client's zone, although endpoints elsewhere are expected too"
UNSEEN = "never reach some of the expected endpoints"
UNEVEN = "are not shared equally between the endpoints"
MASKED = "do not show the client's address to the endpoint"
REFUSED = "are refused, although there are endpoints for them"
SILENT = "get no answer, although there are endpoints for them"
REFUSED_DURING = "are refused while endpoints change"
SILENT_DURING = "get no answer while endpoints change"
ANSWERED = "are answered, although no endpoint may be used"
NOT_DROPPED = "are refused where silence is expected"
NOT_REFUSED = "get no answer where a refusal is expected"

RANKS = (
    UNREADY, TERMINATING, REMOVED, LEFT_NODE, LEFT_ZONE, HINTED_ELSEWHERE, ANSWERED, REFUSED, SILENT, REFUSED_DURING,
    SILENT_DURING, NARROW, OTHERS, UNSEEN, UNEVEN, MASKED, NOT_DROPPED, NOT_REFUSED,
)  # fmt: skip
"""Differences in connections, the most informative first. The other differences concern API objects or DNS answers."""

NODE_CLIENT, EXTERNAL_CLIENT, UDP, IPV6 = "client=node", "client=external", "UDP", "IPv6"
"""Unusual conditions other than the kind of address. They are derived from titles of windows and labels of clients."""


@dataclass(frozen=True, slots=True, order=True)
class FailurePattern:
    """A difference as text, and the unusual conditions that all affected clients have in common. `sure` is false if the
    scenario did not record enough to distinguish this difference from others.
    """

    text: str
    conditions: tuple[str, ...] = ()
    sure: bool = True


def differences(story: CaseEvents) -> list[FailurePattern]:
    """Return the differences in a scenario's failed windows and comparisons. Equal differences are listed once."""
    found: dict[tuple[str, bool], list[frozenset[str]]] = {}
    for text, conditions in _observed(story):
        found.setdefault((text.removeprefix(_MAYBE), not text.startswith(_MAYBE)), []).append(conditions)
    return sorted(
        FailurePattern(text, tuple(sorted(frozenset.intersection(*each))), sure)
        for (text, sure), each in found.items()
        if sure or (text, True) not in found
    )


_MAYBE = "maybe: "


def _observed(story: CaseEvents) -> Iterator[tuple[str, frozenset[str]]]:
    for window in story.windows:
        if window.judgement is not None and window.judgement.verdict is Verdict.FAILED:
            yield from _of_window(window, story.changes)
    for compared in story.compared:
        if compared.verdict is Verdict.FAILED:
            yield from _of_comparison(compared, story.changes)


# Windows


def _of_window(window: WindowRecord, changes: Sequence[Change]) -> Iterator[tuple[str, frozenset[str]]]:
    service, kind = window.of
    before = [each for each in changes if each.at <= window.at]
    endpoints, family = _Endpoints(before, service), _family(before, service)
    _, rows = grid(window.expectation, window.tallies, window.plans)
    for row in rows:
        expected = window.expectation[row.client]
        asked = _conditions(f"{row.client} {window.title}", kind) | family
        client = _Client.of(row.client)
        marked = {mark: [name for name, cell in row.cells.items() if cell.mark is mark] for mark in CellMark}
        for column in marked[CellMark.WRONG]:
            for text in _of_outcome(column, expected, client, endpoints, during=bool(window.flows)):
                yield text, asked
        unseen = marked[CellMark.UNSEEN]
        if unseen and not marked[CellMark.WRONG]:
            stays = client.zone and all(_zone(each) == client.zone for each in marked[CellMark.RIGHT])
            yield NARROW if stays and all(_zone(each) != client.zone for each in unseen) else UNSEEN, asked
        if marked[CellMark.UNEVEN]:
            yield UNEVEN, asked


def _of_outcome(
    column: str, expected: object, client: "_Client", endpoints: "_Endpoints", *, during: bool
) -> Iterable[str]:
    """Return the differences for one wrong outcome: `column` is a pod that answered, "refused" or "timed out"."""
    if column == "refused":
        return [NOT_DROPPED if isinstance(expected, TimedOut) else REFUSED_DURING if during else REFUSED]
    if column == "timed out":
        return [NOT_REFUSED if isinstance(expected, Refused) else SILENT_DURING if during else SILENT]
    allowed = pods_of(expected) if isinstance(expected, frozenset | set | AnyOf | EqualShares) else frozenset()
    if state := endpoints.state(column):
        return [state]
    found = [HINTED_ELSEWHERE] * endpoints.hinted_elsewhere(column, client)
    if allowed and client.node and {_node(each) for each in allowed} == {client.node} != {_node(column)}:
        found.append(LEFT_NODE)
    if allowed and client.zone and {_zone(each) for each in allowed} == {client.zone} != {_zone(column)}:
        found.append(LEFT_ZONE)
    return found or [OTHERS if allowed else ANSWERED]


def _conditions(asked: str, kind: str) -> frozenset[str]:
    """Return the unusual conditions of connections. `asked` names the client and the window."""
    found = {word for word in (UDP, IPV6) if re.search(rf"\b{word}\b", asked)}
    found |= {NODE_CLIENT} if asked.startswith("node ") else set()
    found |= {EXTERNAL_CLIENT} if asked.startswith("outside ") else set()
    return frozenset(found | ({kind} if kind not in ("", "cluster-ip") else set()))


def _family(changes: Sequence[Change], service: str) -> frozenset[str]:
    """Return {IPV6} if all slices of a Service are for IPv6. If `service` is "", check the slices of all Services."""
    slices = [str(each.facts.get("slice")) for each in changes if each.what == "write slice"]
    mine = [each for each in slices if not service or each.startswith(f"{service}-")]
    return frozenset({IPV6} if mine and all(each.endswith("ipv6") for each in mine) else ())


_PLACE = re.compile(r"(?:pod |node |outside via )?(([a-z]+)\d+)(?!\w)")


@dataclass(frozen=True, slots=True)
class _Client:
    """The node and zone of a client, or "" if its label does not show them."""

    node: str
    zone: str

    @classmethod
    def of(cls, label: str) -> "_Client":
        found = _PLACE.match(label)
        return cls(found[1], found[2]) if found else cls("", "")


def _node(pod: str) -> str:
    return _Client.of(pod).node


def _zone(pod: str) -> str:
    return _Client.of(pod).zone


class _Endpoints:
    """The endpoints in the EndpointSlices that the scenario itself wrote for a Service."""

    def __init__(self, changes: Sequence[Change], service: str) -> None:
        slices: dict[str, Sequence[Mapping[str, Any]]] = {}
        self._former: dict[str, set[str]] = {}  # addresses that slices had earlier, by node
        for change in changes:
            name = str(change.facts.get("slice", ""))
            if not service or not name.startswith(f"{service}-"):
                continue
            for each in slices.pop(name, ()):
                self._former.setdefault(str(each.get("nodeName")), set()).update(each["addresses"])
            if change.what == "write slice":
                slices[name] = change.facts["endpoints"]
        self._all = [each for some in slices.values() for each in some]

    def _on(self, node: str) -> list[Mapping[str, Any]]:
        return [each for each in self._all if node and each.get("nodeName") == node]

    def state(self, pod: str) -> str | None:
        """Return REMOVED, UNREADY or TERMINATING for a pod on whose node no endpoint is ready, otherwise None."""
        conditions = [each.get("conditions") or {} for each in self._on(_node(pod))]
        if not conditions:
            former = self._former.get(_node(pod), set())
            kept = {address for each in self._all for address in each["addresses"]}
            return REMOVED if former and not former & kept else None
        if any(each.get("ready") is not False for each in conditions):
            return None
        return TERMINATING if all(each.get("terminating") for each in conditions) else UNREADY

    def hinted_elsewhere(self, pod: str, client: _Client) -> bool:
        """Return whether all endpoints have hints, but none on the pod's node names the client's zone or node."""
        hints = [each.get("hints") or {} for each in self._on(_node(pod))]
        if not hints or not client.node or not all(each.get("hints") for each in self._all):
            return False
        named = {str(name["name"]) for each in hints for kind in each.values() for name in kind or ()}
        return not named & {client.zone, client.node}


# Comparisons


def _of_comparison(compared: ComparedValues, changes: Sequence[Change]) -> Iterator[tuple[str, frozenset[str]]]:
    what, expected, observed = compared.what, compared.expected, compared.observed
    flow = re.match(r"(?:the|server of the(?: new)?)? ?(flow|connection) of (.+?)(?: to .*)?$", what)
    if what.startswith("address of ") and isinstance(observed, list):
        seen = [f"{what} {each}" for each in dict.fromkeys(observed)]
        yield next((text for each in seen if (text := _lost(each))), MASKED), _asked(what, changes)
    elif what.startswith("outcomes that are wrong") and isinstance(observed, dict):
        for words in observed:
            yield from ((each, _asked(words, changes)) for each in _of_words(words))
    elif isinstance(observed, str) and (flow or what.startswith("wrong ") or _lost(observed)):
        words = f"{flow[2]} reached {observed}" if flow else observed
        asked = _asked(f"{words} {what}", changes) | ({UDP} if flow and flow[1] == "flow" else set())
        yield from ((each, asked) for each in _of_words(words))
    else:
        yield _text(what, expected, observed), _asked(what, changes) & {IPV6}


def _asked(words: str, changes: Sequence[Change]) -> frozenset[str]:
    kind = re.search(r"\b(node-port|external-ip|load-balancer)\b", words)
    return _conditions(words, kind[1] if kind else "") | _family(changes, "")


def _of_words(observed: str) -> Iterator[str]:
    """Yield possible differences for "CLIENT reached POD" or "CLIENT got no answer" if no expectation is known."""
    client, pod, lost = _Client.of(observed), observed.rpartition(" ")[2], _lost(observed)
    yield lost or OTHERS
    if not lost and client.zone and _zone(pod):
        maybe = {LEFT_NODE: client.node != _node(pod), LEFT_ZONE: client.zone != _zone(pod)}
        yield from (f"{_MAYBE}{text}" for text, differs in maybe.items() if differs)


def _lost(words: str) -> str:
    outcomes = {SILENT: ("TimedOut", "got no answer"), REFUSED: ("Refused", "was refused")}
    return next((text for text, ends in outcomes.items() if words.endswith(ends)), "")


def _text(what: str, expected: Any, observed: Any) -> str:
    if isinstance(observed, dict) and "rcode" in observed:
        return _dns(expected, observed)
    if re.match(r"answer to (?!GET)", what) and (expected == "accepted" or "code" in str(expected)):
        return f"the API server {'refuses a valid' if expected == 'accepted' else 'does not refuse an invalid'} object"
    if re.search(r"by the zone of their hints|counts of zones with fewer", what):
        return "EndpointSlices lack hints" if "0 zones" in observed else _WRONG_HINTS
    if re.search(r"\bhints\b", what) and isinstance(expected, dict) and isinstance(observed, dict):
        return _hints(expected, observed)
    for pattern, text in _SUBJECTS.items():
        if found := re.search(pattern, what):
            return text.format(*found.groups())
    subject = re.sub(r"\S*\d\S*", "…", what.partition(", ")[0])  # without the names of objects, which have digits
    return f"{subject}: another value than expected"


_SUBJECTS = {
    r"became as expected within": "changes do not reach packets in time",
    r"^metric (\w+)": "metric {0} is wrong",
    r"^writes of slices|^resource versions of the slices": "EndpointSlices are written too often",
    r"^ready, serving, terminating of|^conditions of": "objects have wrong conditions",
    r"^(?:ports|zones|addresses).* slices|^slices of|^zones of endpoints": "EndpointSlices are wrong or not updated",
    r"^the ([\w-]+)$": "the {0} stops",
}
"""Patterns for the name of a failed comparison, and the difference for each pattern."""


def _dns(expected: Any, observed: Mapping[str, Any]) -> str:
    wanted = expected if isinstance(expected, dict) else {}
    if found := re.match("no answer|malformed answer", observed["rcode"]):
        return f"the DNS server returns {'a ' * found[0].startswith('m')}{found[0]}"
    if wanted.get("rcode", observed["rcode"]) != observed["rcode"]:
        return f"the DNS server answers {observed['rcode']} instead of {wanted['rcode']}"
    missing = wanted.get("data") and not observed.get("data")
    return f"the DNS server answers {'without the expected' if missing else 'with wrong'} records"


def _hints(expected: Mapping[str, Any], observed: Mapping[str, Any]) -> str:
    if missing := expected.keys() - observed.keys():
        return "EndpointSlices lack endpoints" if missing < expected.keys() or not observed else _WRONG_HINTS
    if observed.keys() - expected.keys():
        return "EndpointSlices have endpoints that should not be there"
    differ = [(value, observed[name]) for name, value in expected.items() if value != observed[name]]
    if all(not _is_hint(value) for value, _ in differ):
        return "EndpointSlices have hints that should not be there"
    return "EndpointSlices lack hints" if all(not _is_hint(value) for _, value in differ) else _WRONG_HINTS


_WRONG_HINTS = "EndpointSlices have hints for wrong zones or nodes"


def _is_hint(value: object) -> bool:
    return bool(value) and value not in ("no hints", "Hints(zones=(), nodes=())")
