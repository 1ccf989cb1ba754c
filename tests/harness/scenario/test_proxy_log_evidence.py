"""Tests that a proxy's log is shown from the beginning of the window if its lines have timestamps."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest

from harness.scenario.evidence import LINES, since_then

OPENED = datetime(2026, 11, 21, 8, 49, 51, 100000, UTC).timestamp()
KLOG = """\
I1121 08:49:51.099999   27095 a.go:1] "before"
 of it
I1121 08:49:51.100000   27095 a.go:1] "then"
 of it
E1121 08:49:52.000000   27095 a.go:1] "after"
"""


@pytest.mark.parametrize(
    ("log", "shown"),
    [
        (KLOG, KLOG.split(" of it\n", 1)[1].strip()),
        (KLOG.splitlines()[0], "no lines"),
        ("", "no lines"),
        ("one\ntwo\n", "lines without timestamps; these are the last\none\ntwo"),
    ],
    ids=["recent-lines", "no-recent-lines", "empty", "no-timestamps"],
)
def test_log_is_shown_since_the_window(log: str, shown: str) -> None:
    assert since_then(log, OPENED) == shown


def test_long_log_lacks_its_beginning_and_says_so() -> None:
    lines = [f"I1121 08:49:53.{number:06} 1 a.go:1] x" for number in range(LINES + 5)]
    assert since_then("\n".join(lines), OPENED).splitlines() == ["… 5 lines left out …", *lines[5:]]
