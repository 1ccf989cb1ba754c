"""Tests that the timeline shows changes and wrong observations in order."""

from __future__ import annotations

from harness.judging.timeline import AFTER, BEFORE, HEAD, Change, TimedObservation, as_text
from harness.model.evidence_text import as_yaml, gathered, with_names

REFUSED = TimedObservation(101.649, "c1 asks, and is refused")


def write(at: float, name: str) -> Change:
    hints = {"forZones": [{"name": "a"}]}
    endpoint = {"addresses": ["10.244.1.2"], "conditions": {"ready": False}, "hints": hints}
    return Change(at, "write slice", {"slice": name, "endpoints": [endpoint]})


def test_change_is_listed_before_the_wrong_answer_that_follows_it() -> None:
    assert as_text([write(101.645, "web-1"), write(102.0, "web-2")], [REFUSED], zero=100.0).splitlines() == [
        HEAD,
        "   +1,645 ms  write slice web-1, 1 endpoint: 10.244.1.2 for zone a not ready",
        "   +1,649 ms  → c1 asks, and is refused",
        "   +2,000 ms  write slice web-2, 1 endpoint: 10.244.1.2 for zone a not ready",
    ]


def test_changes_of_earlier_scenarios_are_left_out() -> None:
    assert as_text([write(99.0, "web-1")], [REFUSED], zero=100.0) == ""


def test_timeline_is_short_after_many_changes() -> None:
    changes = [write(100 + n / 10, f"web-{n}") for n in range(1000)]
    said = as_text(changes, [REFUSED], zero=100.0).splitlines()
    assert len(said) == 1 + BEFORE + 1 + AFTER
    assert "web-16," in said[BEFORE]


def test_a_component_of_the_whole_cluster_is_not_on_nodes() -> None:
    facts = {"nodes": ["a1", "a2"]}
    changes = [
        Change(100.1, "stop", {"component": "proxy", **facts}),
        Change(100.2, "stop", {"component": "api-server", **facts}),
    ]
    assert [line.split("  ")[-1] for line in as_text(changes, [], zero=100.0).splitlines()[1:]] == [
        "stop proxy, on a1 a2",
        "stop api-server",
    ]


def test_known_addresses_show_their_owner() -> None:
    text = "forward to 10.244.1.4, fd00:10:244:1::4 (all 2), 10.244.1.40; cluster IP: 10.96.0.1"
    names = {"10.244.1.4": "a1", "fd00:10:244:1::4": "a1", "10.96.0": "wrong"}
    assert with_names(text, names) == (
        "forward to a1 (10.244.1.4), a1 (fd00:10:244:1::4) (all 2), 10.244.1.40; cluster IP: 10.96.0.1"
    )


def test_missing_parts_have_a_reason() -> None:
    def away() -> str:
        raise OSError("connection refused")

    assert gathered(away, comment="# ") == "# could not be gathered: OSError: connection refused\n"


def test_objects_are_shown_without_managed_fields_and_absent_ones_are_reported() -> None:
    assert as_yaml([{"metadata": {"name": "web", "managedFields": [{}]}}], "services") == "metadata:\n  name: web\n"
    assert as_yaml([], "services in namespace td-3") == "# there are no services in namespace td-3\n"
