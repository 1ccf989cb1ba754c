"""Show a packet's path as a numbered list, with earlier rules whose lookup found nothing, as they may be faulty."""

import itertools
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from harness.model.outcomes import Observation, Reached, Refused, TimedOut, Unknown
from harness.tracing.messages import TRACE_TABLE, TraceEvent
from harness.tracing.packet import End, Frame, Packet, of_flow
from harness.tracing.rules import Rules, SetLookup, lookups

_INDENT = " " * 6
_OWN = f"inet {TRACE_TABLE}"

MOST_FRAMES = 16  # maximum number of captured packets in the list
RuleName = tuple[str, str, int]


@dataclass(frozen=True, slots=True)
class TracedProbe:
    """A probe that was repeated with tracing on a node: all outcomes, and the evidence of the last repetition.

    `rules` has each chain's rules in order. `connection` is the conntrack entry. `missing` lists unavailable evidence.
    """

    seen: Sequence[Observation] = ()
    trace: Sequence[TraceEvent] = ()
    rules: Sequence[RuleName] = ()
    links: Mapping[int, str] = field(default_factory=dict)
    frames: Sequence[Frame] = ()
    connection: str = ""
    missing: Sequence[str] = ()
    to: End = ("", 0)

    @property
    def first(self) -> Packet | None:
        sent = (each.packet for each in self.frames if each.out)
        asks = (each for each in sent if (each.destination, each.destination_port) == self.to)
        return next((each.packet for each in self.trace if each.packet), next(asks, None))

    @property
    def last(self) -> TraceEvent | None:
        """The end of the trace, with the packet as it left the rules, or None if the packet did not leave them."""
        own = (each for each in self.trace if each.table == _OWN and each.chain.startswith("last-"))
        return next((each for each in own if each.packet), None)

    @property
    def flow(self) -> list[Frame]:
        last = self.last
        return of_flow(self.frames, self.first, last.packet if last else None) if self.first else []


def path(followed: TracedProbe, rules: Rules, *, client: str, node: str, names: Mapping[str, str]) -> list[str]:
    """Return the numbered list as lines. `names` maps addresses to pods. Return no lines if no probe was repeated."""
    if not followed.seen:
        return []
    steps = enumerate(_PathFormatter(followed, rules, client, node, names).steps(), 1)
    lines = ([f"{number:3}. {first}", *(_INDENT + each for each in more)] for number, (first, *more) in steps)
    return list(itertools.chain.from_iterable(lines))


def at_node(followed: TracedProbe) -> list[Frame]:
    """Return the connection's captured frames at the node, or its frames from all places if none reached the node."""
    flow = followed.flow
    return [each for each in flow if each.where.startswith("node ")] or flow


def wire(followed: TracedProbe, names: Mapping[str, str]) -> list[str]:
    """Return the captured frames of the connection, one per line, with the time since the first frame."""
    frames = followed.flow
    lines = [
        f"{(each.at - frames[0].at) / 1e6:+10.3f} ms  {each.where}, {'out' if each.out else 'in'} over {each.link}: "
        f"{ends_of(each.packet, names)} {each.packet.protocol}{_flags(each)}"
        for each in frames[:MOST_FRAMES]
    ]
    return [*lines, f"… and {len(frames) - MOST_FRAMES} more"] if len(frames) > MOST_FRAMES else lines


def _flags(frame: Frame) -> str:
    about = f"about {frame.concerns}" if frame.concerns is not frame.packet else ""
    return "".join(f" {each}" for each in (frame.packet.flags, about) if each)


class _PathFormatter:
    def __init__(self, followed: TracedProbe, rules: Rules, client: str, node: str, names: Mapping[str, str]) -> None:
        self._followed, self._rules = followed, rules
        self._client, self._node, self._names = client, node, names
        self._packet: Packet | None = None
        self._mark = 0
        self._taken: dict[tuple[str, str], int] = {}  # the number of rules that the packet has passed, by chain
        self._handles: dict[tuple[str, str], list[int]] = {}
        for table, chain, handle in followed.rules:
            self._handles.setdefault((table, chain), []).append(handle)

    def steps(self) -> Iterator[list[str]]:
        trace = self._followed.trace
        yield [self._sends()]
        for each in trace:
            self._packet = each.packet or self._packet
            if each.table != _OWN:
                yield from self._step(each)
                self._mark = each.mark
        if trace:
            yield [self._leaves(), f"conntrack of node {self._node}: {self._followed.connection or 'no entry'}"]
        yield [self._outcome(self._followed.seen[-1])]

    def _sends(self) -> str:
        first, trace = self._followed.first, self._followed.trace
        packet = f"{ends_of(first, self._names)}, {first.protocol}" if first else "a packet"
        if not trace:
            where = f"none of its packets reached the rules of node {self._node}"
        elif over := self._link(trace[0].into):
            where = f"it enters node {self._node} over {over}"
        else:
            where = f"it starts on node {self._node}"
        return f"client {self._client} sends {packet}; {where}"

    def _step(self, each: TraceEvent) -> Iterator[list[str]]:
        place, where = (each.table, each.chain), f"{each.table} {each.chain}"
        if each.packet:  # only in the first message of a base chain
            self._taken = {}
        if each.ends == "policy":
            no_match = "end of the chain" if place in self._taken else "no rule matches"
            why = no_match if self._handles.get(place) else "the chain has no rules"
            yield [f"{where}: {why}; policy {each.verdict}", *self._passed_over(place, None)]
        elif each.handle:
            text = self._text(place, each.handle)
            passed = self._passed_over(place, each.handle)
            found = [
                f"@{one.name} has {one.element}" if one.element else f"@{one.name}: element {one.key} is not listed"
                for one in self._lookups(text, each.table, each.mark)
            ]
            marked = [f"mark {each.mark:#x}"] if each.mark != self._mark or "mark set" in text else []
            if each.verdict.startswith("goto "):  # the packet does not return to the rules after it
                self._taken[place] = len(self._handles.get(place, []))
            ended = "" if text.endswith(each.verdict) else f" → {each.verdict}"
            yield [f"{where}: {text}{ended}", *passed, *found, *marked]

    def _passed_over(self, place: tuple[str, str], handle: int | None) -> list[str]:
        """Return the rules before this rule, or before the end of the chain, whose lookups found no match."""
        handles = self._handles.get(place, [])
        begin = self._taken.get(place, 0)
        end = handles.index(handle) if handle in handles else len(handles)
        self._taken[place] = end + 1
        texts = (self._text(place, each) for each in handles[begin:end])
        return [
            f"no match: {text}: @{one.name} has no {one.key}"
            for text in texts
            for one in self._lookups(text, place[0], self._mark)
            if not one.element
        ]

    def _lookups(self, text: str, table: str, mark: int) -> Iterator[SetLookup]:
        if self._packet is not None:
            yield from lookups(text, table, self._rules, self._packet, mark)

    def _text(self, place: tuple[str, str], handle: int) -> str:
        handles, texts = self._handles.get(place, []), self._rules.chains.get(place, ())
        number = handles.index(handle) if handle in handles else -1
        if len(texts) == len(handles) and number >= 0:
            return texts[number]
        return f"rule {number + 1} of {len(handles)} (handle {handle})" if number >= 0 else f"rule with handle {handle}"

    def _leaves(self) -> str:
        first, last = self._followed.first, self._followed.last
        if first is None or last is None or last.packet is None:
            return f"it does not get past these rules of node {self._node}"
        out = self._link(last.out)
        where = f"it leaves node {self._node} over {out}" if out else f"it stays on node {self._node}"
        return f"{where} as {ends_of(last.packet, self._names)}: {_translation(first, last.packet)}"

    def _outcome(self, seen: Observation) -> str:
        match seen:
            case Reached(pod):
                return f"{pod.rpartition('/')[2]} answers"
            case Refused(how):
                return f"the client gets a refusal{f' ({how})' if how else ''}"
            case TimedOut():
                return "the client gets no answer"
            case Unknown(why):
                return f"the outcome is unknown: {why}"

    def _link(self, index: int) -> str:
        return self._followed.links.get(index, f"link {index}") if index else ""


def ends_of(packet: Packet, names: Mapping[str, str]) -> str:
    ends = zip(str(packet).split(" → "), (packet.source, packet.destination), strict=True)
    return " → ".join(f"{names[host]} ({end})" if host in names else end for end, host in ends)


def _translation(before: Packet, after: Packet) -> str:
    destination = (before.destination, before.destination_port) != (after.destination, after.destination_port)
    source = (before.source, before.source_port) != (after.source, after.source_port)
    changed = ["destination"] * destination + ["source"] * source
    return f"{' and '.join(changed)} translated" if changed else "no translation"
