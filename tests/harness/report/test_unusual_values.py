"""Tests that no unusual value in a report or a history crashes a command."""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from typing import Any

import orjson
import pytest
from click.testing import CliRunner

from harness.commands.main import main
from tests.harness.report.forged_run import ForgedRun

pytest_plugins = ["pytester"]

ODD: tuple[Any, ...] = (
    None, True, -1, 10**30, 1e308, 0.5, "", "\0", "../x", "\x1b[31m", "x" * 10_000, [], {}, ["x"], {"x": 1}, [[[]]],
    [None],
)  # fmt: skip


def places(value: Any, *before: Any) -> Iterator[tuple[Any, ...]]:
    """Yield the path of every value. Of a list, yield only the first and the last item."""
    yield before
    lists = dict(enumerate(value)) if isinstance(value, list) else {}
    inside = (value if isinstance(value, dict) else lists).items()
    for number, (key, each) in enumerate(inside):
        if isinstance(value, dict) or number in (0, len(inside) - 1):
            yield from places(each, *before, key)


def put(value: Any, place: Sequence[Any], odd: Any) -> Any:
    for key in place[:-1]:
        value = value[key]
    before, value[place[-1]] = value[place[-1]], odd
    return before


def crashes(*command: str) -> bool:
    """Return whether a command ends with an exit code that only a bug can cause."""
    return CliRunner().invoke(main, command).exit_code not in (0, 1, 4, 5, 10, 11, 12, 13)


@pytest.mark.slow
@pytest.mark.timeout(1800)
def test_every_changed_value_in_a_report_is_refused(forged: ForgedRun) -> None:
    """No command crashes on a changed report either."""
    path, faults = str(forged.folder / "report.yaml"), []
    for place in [each for each in places(forged.report) if each]:
        for odd in ODD:
            before = put(forged.report, place, odd)
            try:
                if repr(before) != repr(odd) and not forged.checks():
                    faults.append(f"accepted: {place} is {str(odd)[:50]!r}")
            except Exception as error:  # noqa: BLE001  any exception is a fault
                faults.append(f"{error!r}: {place} is {str(odd)[:50]!r}")
            if crashes("compare", "--changes", path, path) or crashes("judge", str(forged.folder)):
                faults.append(f"a command broke: {place} is {str(odd)[:50]!r}")
            put(forged.report, place, before)
    assert not faults, "\n".join(faults)


@pytest.mark.slow
@pytest.mark.timeout(600)
def test_any_value_in_a_history_is_handled_by_every_command(forged: ForgedRun) -> None:
    """Put each unusual value in each place of each kind of record, with valid digests."""
    lines, faults = list(forged.lines), []
    seen: set[tuple[str, tuple[Any, ...]]] = set()
    for number, record in enumerate(map(orjson.loads, lines)):
        for place in [each for each in places(record) if each and each != ("digest",)]:
            if (record["kind"], place) in seen:
                continue
            seen.add((record["kind"], place))
            for odd in (None, -1, 2**63, 1e308, 1e-300, "", [], {"x": 1}):
                changed = orjson.loads(lines[number])
                put(changed, place, odd)
                forged.lines = [*lines[:number], orjson.dumps(changed) + b"\n", *lines[number + 1 :]]
                begun = time.process_time()
                try:
                    forged.rewrite(lambda each: each)
                    forged.checks()
                except Exception as error:  # noqa: BLE001  any exception is a fault
                    faults.append(f"{error!r}: {record['kind']} {place} is {str(odd)[:50]!r}")
                if crashes("judge", str(forged.folder / "run.jsonl")):
                    faults.append(f"judge broke: {record['kind']} {place} is {str(odd)[:50]!r}")
                if time.process_time() - begun > 2:
                    faults.append(f"slow: {record['kind']} {place} is {str(odd)[:50]!r}")
    assert not faults, "\n".join(faults)
