"""Forged histories, some with a forged report. Each forgery has the name of the check that rejects it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import orjson

from tests.harness.report.forged_reports import move_to_passed
from tests.harness.report.forged_run import ForgedRun


def changed(kind: str, **values: Any) -> Callable[[ForgedRun], None]:
    return lambda f: f.rewrite(lambda record: {**record, **values} if record["kind"] == kind else record)


def without(kind: str) -> Callable[[ForgedRun], None]:
    return lambda f: f.rewrite(lambda record: None if record["kind"] == kind else record)


def cleaned(record: dict[str, Any]) -> dict[str, Any]:
    if record["kind"] == "observed" and record["tally"].get("timedOut"):
        return {**record, "tally": {"pods": {"a1": 8}}, "offending": []}
    return record


def told(record: dict[str, Any]) -> dict[str, Any]:
    if record["kind"] == "verdict" and record["test"] == "KEP-2/leaks":
        return {**record, "verdict": "passed", "message": ""}
    return record


def renamed(record: dict[str, Any]) -> dict[str, Any]:
    if record["kind"] == "run":
        record["facts"]["report"]["implementation"]["version"] = "2.0"
    return record


def edit(old: bytes, new: bytes) -> Callable[[ForgedRun], None]:
    return lambda f: setattr(f, "history", b"".join(f.lines).replace(old, new, 1))


def cut(number: int) -> Callable[[ForgedRun], None]:
    return lambda f: setattr(f, "history", b"".join(f.lines[:number]))


LATER = "skipped later: everything judged before had passed"


def leaks(**values: Any) -> Callable[[ForgedRun], None]:
    """Change the verdict on the failed test, and compute the digests again."""
    return named("leaks", **values)


def named(slug: str, **values: Any) -> Callable[[ForgedRun], None]:
    """Change the verdict on a test, and compute the digests again."""
    return lambda f: f.rewrite(
        lambda each: {**each, **values} if each["kind"] == "verdict" and each["test"] == f"KEP-2/{slug}" else each
    )


def never_judged(record: dict[str, Any]) -> dict[str, Any] | None:
    """Remove all judgements, and leave verdicts as they were."""
    return None if record["kind"] == "judged" else record


def passed_at_the_end(record: dict[str, Any]) -> Any:
    if record["kind"] == "verdict" and record["test"] == "KEP-2/leaks":
        last = {**record, "phase": "", "verdict": "passed", "message": "", "cause": "passed, and nothing was judged"}
        return [record, last]
    return record


def other_counts(record: dict[str, Any]) -> dict[str, Any]:
    if record["kind"] == "verdict" and record["test"] == "KEP-2/holds":
        record["observed"]["1. TCP"]["a1"]["a1"] = 99
    return record


def other_flow(record: dict[str, Any]) -> dict[str, Any]:
    if record["kind"] == "observed" and "flow" in record:
        record["flow"]["outcomes"] = ["TIMED_OUT"]
    return record


def unseen(f: ForgedRun) -> None:
    """Leave only a passed verdict on the failed test, also in the report, as a careful forger would."""

    def change(record: dict[str, Any]) -> dict[str, Any] | None:
        nonlocal mine
        if record["kind"] == "window":
            mine = failing == (record.get("worker"), record["window"])
        if mine and record["kind"] in ("window", "observed", "judged"):
            return None
        if record["kind"] == "verdict" and record["test"] == "KEP-2/leaks":
            cause = "passed, and nothing was judged"
            return {**record, "verdict": "passed", "message": "", "cause": cause, "observed": {}, "check": {}}
        return record

    mine = False
    records = [orjson.loads(line) for line in f.lines]
    verdict = next(each for each in records if each["kind"] == "verdict" and each["test"] == "KEP-2/leaks")
    before = records[: records.index(verdict)]
    wrong = [each for each in before if each["kind"] == "observed" and each["tally"].get("timedOut")][-1]
    failing = (wrong.get("worker"), wrong["window"])
    f.rewrite(change)
    move_to_passed(f)
    for key in ("observed", "check"):
        del f.tests["leaks"][key]


def not_claimed(f: ForgedRun) -> None:
    """Present the failed test as not claimed, both in the history and in the report."""

    def change(record: dict[str, Any]) -> dict[str, Any] | None:
        if record["kind"] == "verdict" and record["test"] == "KEP-2/leaks":
            return None
        if record["kind"] == "not-run" and record["reason"] == "unsupported":
            record["tests"]["KEP-2"]["leaks"] = []
        return record

    f.rewrite(change)
    f.tests["leaks"].update(verdict="skipped", reason="unsupported", message="Other")


def laxer(**rates: float) -> Callable[[ForgedRun], None]:
    """Change error rates of all windows, so that fewer probes are enough."""

    def change(record: dict[str, Any]) -> dict[str, Any]:
        return {**record, "rates": {**record["rates"], **rates}} if record["kind"] == "window" else record

    return lambda f: f.rewrite(change)


def fitted(f: ForgedRun) -> None:
    """Let the windows of a requirement that is met expect the wrong pod that answered."""

    def change(record: dict[str, Any]) -> dict[str, Any]:
        if record.get("window") not in OF_HOLDS:
            return record
        fits: dict[str, Any] = {"window": {"expectation": {"a1": ["b1"]}}, "observed": {"tally": {"pods": {"b1": 9}}}}
        return {**record, **fits.get(record["kind"], {})}

    f.rewrite(change)


OF_HOLDS = (1, 2)
"""The windows of `KEP-2/holds`."""


def borrowed(f: ForgedRun) -> None:
    """Let the windows of a requirement have the error rates of others."""
    f.rewrite(lambda record: {**record, "test": "KEP-2/holds"} if record["kind"] == "window" else record)


def promised(f: ForgedRun) -> None:
    """Add a promise that is met, and is longer than the one in the report."""

    def change(record: dict[str, Any]) -> Any:
        if record["kind"] != "judged":
            return record
        what = "traffic became as expected within the declared 60 s"
        values = {"what": what, "expected": True, "observed": True, "verdict": "passed"}
        kept = {key: record[key] for key in ("mono", "wall", "worker") if key in record}
        return [record, {"kind": "comparison", **kept, "test": "", **values}]

    f.rewrite(change)


HISTORIES: dict[str, tuple[str, Callable[[ForgedRun], Any]]] = {
    "a line is changed": ("history", edit(b'"timedOut":1', b'"timedOut":0')),
    "the end is cut off": ("history", cut(-1)),
    "nothing is left": ("history", cut(0)),
    "it is no history": ("history", lambda f: setattr(f, "history", b"{}\n")),
    "another format": ("history", changed("begin", version=99)),
    "what was seen is changed, with new digests": ("verdicts", lambda f: f.rewrite(cleaned)),
    "the verdict is changed, with new digests": ("verdicts", lambda f: f.rewrite(told)),
    "all windows may miss more": ("limits", laxer(miss=0.5)),
    "all windows find larger faults only": ("limits", laxer(leak=0.9)),
    "each client alone finds larger faults only": ("limits", laxer(alone=0.9)),
    "a requirement has the error rates of others": ("limits", borrowed),
    "a wrong pod is expected": ("expectations", fitted),
    "a window is left out": (
        "expectations",
        lambda f: f.rewrite(lambda record: None if record.get("window") == OF_HOLDS[1] else record),
    ),
    "a longer promise": ("limits", promised),
    "the verdicts are gone": ("catalogue", without("verdict")),
    "what was not run is gone": ("catalogue", without("not-run")),
    "a worker's beginning is gone": (
        "history",
        lambda f: f.rewrite(lambda record: None if record["kind"] == "begin" and record.get("worker") else record),
    ),
    "the run is another's": ("identity", lambda f: f.rewrite(renamed)),
    "it says nothing of the run": ("history", changed("run", facts={"interrupted": False, "distrust": []})),
    "it was interrupted": ("run", changed("run", facts={"interrupted": True, "distrust": []})),
    "it did not trust itself": ("run", changed("run", facts={"interrupted": False, "distrust": ["the clock"]})),
    "failed is passed, and nothing was judged": (
        "history",
        leaks(verdict="passed", message="", cause="passed, and nothing was judged"),
    ),
    "failed is passed in spite of it": (
        "verdicts",
        leaks(verdict="passed", message="", cause="passed, though a judgement had not"),
    ),
    "failed is skipped": (
        "history",
        leaks(verdict="skipped", reason="unavailable", message="no tool", cause="not tried: skipped"),
    ),
    "failed is skipped later": (
        "history",
        leaks(verdict="skipped", reason="unavailable", message="no tool", cause=LATER),
    ),
    "passed is skipped, and said to be not tried": (
        "history",
        named("holds", verdict="skipped", reason="unavailable", message="no tool", cause="not tried: skipped"),
    ),
    "skipped later, and nothing was judged": ("history", lambda f: f.rewrite(never_judged)),
    "failed is passed at the end": ("history", lambda f: f.rewrite(passed_at_the_end)),
    "what was seen of the failed test is gone": ("verdicts", unseen),
    "the failed test was not claimed": ("features", not_claimed),
    "other counts than those of the windows": ("history", lambda f: f.rewrite(other_counts)),
    "other questions than those that were counted": ("history", lambda f: f.rewrite(other_flow)),
    "other times, with new digests": ("tests", changed("took", seconds=0.5)),
    "no times": ("tests", without("took")),
    "times before the beginning": ("history", changed("took", seconds=-1.0)),
    "workers that are numbers": ("history", changed("begin", merged=[1, 2])),
    "times of another day": ("times", changed("end", wall=1.0)),
}
