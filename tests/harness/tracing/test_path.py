"""Tests that a trace and a ruleset become a numbered list with matching rules, skipped rules, and the destination."""

from __future__ import annotations

from dataclasses import replace

from harness.model.outcomes import REFUSED, TIMED_OUT, Observation, Reached
from harness.tracing.messages import TraceEvent
from harness.tracing.packet import Packet
from harness.tracing.path import TracedProbe, path
from harness.tracing.rules import Rules

ASKS = Packet("tcp", "10.244.1.3", 11000, "10.96.1.1", 80, "SYN")
SENT = replace(ASKS, destination="10.244.4.2", destination_port=8080)
TABLE, OWN = "ip p", "inet trafficdist-trace"
FIRST = TraceEvent(OWN, "first-prerouting", "continue", 1, packet=ASKS, into=7)
LEFT = TraceEvent(OWN, "last-postrouting", "continue", packet=SENT, out=2)
LINKS = {7: "a1-3", 2: "eth0"}
NAMES = {"10.244.4.2": "b2"}
RULES = Rules(
    {
        (TABLE, "nat"): ["ip daddr vmap @odd", "ip daddr vmap @services", "drop"],
        (TABLE, "lb"): ["dnat to 10.244.4.2:8080"],
        (TABLE, "bare"): [],
    },
    {(TABLE, "services"): ["10.96.1.1 : goto lb"], (TABLE, "odd"): ["10.96.1.9 : goto lb"]},
)
HANDLES = [(TABLE, "nat", 4), (TABLE, "nat", 5), (TABLE, "nat", 9), (TABLE, "lb", 6)]


ENTRY = "      conntrack of node a1: tcp 9 CLOSE"


def told(*trace: TraceEvent, seen: Observation = TIMED_OUT, rules: Rules = RULES) -> list[str]:
    followed = TracedProbe([seen], [FIRST, *trace], HANDLES, LINKS, connection="tcp 9 CLOSE")
    return path(followed, rules, client="a1", node="a1", names=NAMES)


def test_path_names_rules_elements_and_translation() -> None:
    assert told(
        TraceEvent(TABLE, "nat", "goto lb", 5, packet=ASKS, mark=2),
        TraceEvent(TABLE, "lb", "accept", 6, mark=2),
        LEFT,
        seen=Reached("td-1/b2"),
    ) == [
        "  1. client a1 sends 10.244.1.3:11000 → 10.96.1.1:80, tcp; it enters node a1 over a1-3",
        "  2. ip p nat: ip daddr vmap @services → goto lb",
        "      no match: ip daddr vmap @odd: @odd has no 10.96.1.1",
        "      @services has 10.96.1.1 : goto lb",
        "      mark 0x2",
        "  3. ip p lb: dnat to 10.244.4.2:8080 → accept",
        "  4. it leaves node a1 over eth0 as 10.244.1.3:11000 → b2 (10.244.4.2:8080): destination translated",
        ENTRY,
        "  5. b2 answers",
    ]


def test_chain_without_a_matching_rule_shows_why_rules_did_not_match() -> None:
    untouched = replace(LEFT, packet=ASKS)
    empty = replace(RULES, elements={(TABLE, "services"): []})
    end = TraceEvent(TABLE, "nat", "accept", ends="policy")
    assert told(TraceEvent(TABLE, "nat", "continue", ends="return", packet=ASKS), end, untouched, rules=empty)[1:] == [
        "  2. ip p nat: no rule matches; policy accept",
        "      no match: ip daddr vmap @odd: @odd has no 10.96.1.1",
        "      no match: ip daddr vmap @services: @services has no 10.96.1.1",
        "  3. it leaves node a1 over eth0 as 10.244.1.3:11000 → 10.96.1.1:80: no translation",
        ENTRY,
        "  4. the client gets no answer",
    ]


def test_rules_after_a_goto_are_not_shown_as_skipped() -> None:
    lines = told(TraceEvent(TABLE, "nat", "goto lb", 4, packet=ASKS), TraceEvent(TABLE, "nat", "accept", ends="policy"))
    assert lines[3] == "  3. ip p nat: end of the chain; policy accept"
    assert not any("no match" in each for each in lines)


def test_dropped_packet_goes_no_further() -> None:
    lines = told(TraceEvent(TABLE, "nat", "drop", 9, packet=ASKS), seen=REFUSED)
    assert lines[1] == "  2. ip p nat: drop"
    assert lines[3:] == ["  3. it does not get past these rules of node a1", ENTRY, "  4. the client gets a refusal"]


def test_untracked_connection_is_reported() -> None:
    said = path(TracedProbe([TIMED_OUT], [FIRST]), RULES, client="a1", node="a1", names={})
    assert said[2] == "      conntrack of node a1: no entry"


def test_empty_chain_is_reported() -> None:
    assert "  2. ip p bare: the chain has no rules; policy accept" in told(
        TraceEvent(TABLE, "bare", "accept", ends="policy")
    )


def test_rule_that_no_tool_lists_has_its_number_and_handle() -> None:
    assert (
        told(TraceEvent(TABLE, "nat", "drop", 9, packet=ASKS), rules=Rules())[1]
        == "  2. ip p nat: rule 3 of 3 (handle 9) → drop"
    )
    assert told(TraceEvent(TABLE, "new", "drop", 77, packet=ASKS))[1] == "  2. ip p new: rule with handle 77 → drop"


def test_packet_of_the_node_itself_has_no_link() -> None:
    followed = TracedProbe([TIMED_OUT], [replace(FIRST, chain="first-output", into=0, out=2)], HANDLES, LINKS)
    assert path(followed, RULES, client="node a1", node="a1", names={})[0].endswith("; it starts on node a1")


def test_packet_that_never_reaches_the_node_is_reported() -> None:
    assert path(TracedProbe([TIMED_OUT]), RULES, client="a1", node="a1", names={}) == [
        "  1. client a1 sends a packet; none of its packets reached the rules of node a1",
        "  2. the client gets no answer",
    ]


def test_without_a_repeat_there_is_no_path() -> None:
    assert path(TracedProbe(), RULES, client="a1", node="a1", names={}) == []
