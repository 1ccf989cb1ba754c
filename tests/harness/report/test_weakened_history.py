"""Tests that no change of one record, except of observations, makes a requirement met that failed by a lost answer.

A requirement that failed by an answer of a wrong pod is different: its history fits if that pod is expected too. Only
what the test of the requirement expects shows this (`test_forged_expectations.py`).
"""

from __future__ import annotations

import copy
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import orjson

from harness.errors import UsageError
from harness.judging.judge import judge
from harness.judging.verdict import Verdict
from tests.harness.report.forged_run import ForgedRun

pytest_plugins = ["pytester"]

FAILED, OTHER = "KEP-2/leaks", "KEP-2/holds"
EXPECTED = ("TIMED_OUT", "REFUSED", "NO_ANSWER", {"anyOf": ["a1", "b1"]}, ["a1", "b1"], {"evenly": ["a1", "b1"]})
NUMBERS = (0, -1, 0.5, 10**9)


def _numbers(value: Any) -> Iterator[tuple[Any, Any]]:
    """Yield the place of each number in a JSON value: its container and its key."""
    for key, each in list(value.items() if isinstance(value, dict) else enumerate(value)):
        if isinstance(each, (dict, list)):
            yield from _numbers(each)
        elif isinstance(each, (int, float)):
            yield value, key


def _changed(record: dict[str, Any], other: dict[str, Any]) -> Iterator[dict[str, Any]]:
    """Yield the record with each number and each expectation changed, and with the verdict of another requirement."""
    for place in range(len(list(_numbers(record)))):
        for number in NUMBERS:
            made = copy.deepcopy(record)
            container, key = list(_numbers(made))[place]
            container[key] = number
            yield made
    for client in record.get("expectation", {}):
        for expected in EXPECTED:
            yield {**record, "expectation": {**record["expectation"], client: expected}}
    if record["kind"] == "verdict":
        yield {**record, **{key: other[key] for key in ("verdict", "message", "cause")}}
        yield {**other, "test": record["test"]}


def _histories(records: list[dict[str, Any]]) -> Iterator[list[dict[str, Any]]]:
    """Yield the history with each record changed, dropped, repeated, or exchanged with the next one."""
    other = next(each for each in records if each["kind"] == "verdict" and each["test"] == OTHER)
    for number, record in enumerate(records):
        before, after = records[:number], records[number + 1 :]
        if record["kind"] == "observed":
            continue
        yield [*before, *after]
        yield [*before, record, record, *after]
        if after and after[0]["kind"] != "observed":
            yield [*before, after[0], record, *after[1:]]
        for made in _changed(record, other):
            yield [*before, made, *after]


def test_no_change_of_a_record_turns_a_lost_answer_into_a_pass(forged: ForgedRun) -> None:
    records = [
        {key: value for key, value in each.items() if key != "digest"} for each in map(orjson.loads, forged.lines)
    ]
    tried, met = 0, []
    for history in _histories(records):
        tried += 1
        try:
            judged = judge(history, Path("run.jsonl"))
        except UsageError:
            continue
        derived = {each.requirement.id: each.verdict for each in judged.derived()}
        if derived.get(FAILED) is Verdict.PASSED and not judged.contradictions:
            met.append([each for each in history if each not in records])
    assert tried > 500
    assert met == []
