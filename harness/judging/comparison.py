"""Compare an expected value with a value that was read rather than probed: hints, metrics, answers or writes.

Both values are converted to JSON first. The history stores the same JSON, and `judge` can compare it again later.
"""

from __future__ import annotations

from typing import Any, Literal

import orjson

from harness.judging.verdict import Judgement, Verdict

Relation = Literal["equal", "within"]
"""With "equal", the two values must be equal. With "within", the expected value is a pair of bounds for the observed
number, or for each number of an observed mapping. An upper bound of `None` means that there is no upper limit."""


def compare(
    what: str, expected: Any, observed: Any, *, relation: Relation = "equal", unknown: str = ""
) -> tuple[Any, Any, Judgement]:
    """Return the two values as JSON, and the judgement. A non-empty `unknown` states why the value could not be read.

    Raises `TypeError` for values that JSON does not support.
    """
    expected, observed = _as_json(expected), _as_json(observed)
    return expected, observed, judge(what, expected, observed, relation=relation, unknown=unknown)


def judge(what: str, expected: Any, observed: Any, *, relation: str = "equal", unknown: str = "") -> Judgement:
    if unknown:
        return Judgement(Verdict.INCONCLUSIVE, f"{what}: could not be told: {unknown}")
    if relation == "within":
        return _judge_within(what, expected, observed)
    if _canonical(expected) == _canonical(observed):
        return _passed(what)
    return Judgement(Verdict.FAILED, f"{what}: expected {expected!r}, observed {observed!r}")


def _judge_within(what: str, expected: Any, observed: Any) -> Judgement:
    fewest, most = expected

    def fits(value: float) -> bool:
        return bool(fewest <= value) and (most is None or bool(value <= most))

    if not isinstance(observed, dict):
        beyond = "" if fits(observed) else f"{observed:g}"
    else:
        beyond = ", ".join(f"{name} {value:g}" for name, value in sorted(observed.items()) if not fits(value))
    if not beyond:
        return _passed(what)
    return Judgement(Verdict.FAILED, f"{what}: expected {_range(fewest, most)}, observed {beyond}")


def _range(fewest: float, most: float | None) -> str:
    if most is None:
        return f"at least {fewest:g}"
    return f"{fewest:g}" if fewest == most else f"{fewest:g} to {most:g}" if fewest else f"at most {most:g}"


def _passed(what: str) -> Judgement:
    return Judgement(Verdict.PASSED, f"{what}: as expected")


def _as_json(value: Any) -> Any:
    return orjson.loads(orjson.dumps(value))


def _canonical(value: Any) -> bytes:
    return orjson.dumps(value, option=orjson.OPT_SORT_KEYS)
