"""From something expected and something read to a judgement, for what is not probed: hints, metrics, answers, writes.

Both are compared as JSON, which is how they stand in the history: what is judged online is what can be judged again.
"""

from __future__ import annotations

from typing import Any, Literal

import orjson

from harness.judging.verdict import Judgement, Verdict

Relation = Literal["equal", "within"]
"""What must hold of the observed value: that it is the expected one; or that it, or each number of a mapping, lies
between the two expected numbers, the second of which may be `None`: as many as there are."""


def compare(
    what: str, expected: Any, observed: Any, *, relation: Relation = "equal", unknown: str = ""
) -> tuple[Any, Any, Judgement]:
    """Both values as JSON has them, and the judgement. `unknown` says why nothing could be observed, if so.

    Raises `TypeError` for values that JSON does not have.
    """
    expected, observed = _as_json(expected), _as_json(observed)
    return expected, observed, judge(what, expected, observed, relation=relation, unknown=unknown)


def judge(what: str, expected: Any, observed: Any, *, relation: str = "equal", unknown: str = "") -> Judgement:
    """The judgement on two values that are as JSON has them."""
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
