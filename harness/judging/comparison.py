"""Compares an expected value with a value that a scenario has read, such as hints or metrics. Both values are converted
to JSON first. The history stores the same JSON, so `judge` can repeat the comparison.
"""

from itertools import accumulate
from typing import Any, Literal

import orjson

from harness.judging.verdict import Judgement, Verdict

Relation = Literal["equal", "within", "preliminary"]
"""With "within", the expected value is a pair of bounds for the observed number, or for each number of an observed
mapping. An upper bound of `None` means that there is no upper limit. With "preliminary", two strings must be equal. If
they differ, the scenario is inconclusive, because it depends on a basic check that failed.
"""

MOST_BYTES = 20_000
"""The maximum size of an observed value as JSON. Only the first part of a larger value is judged and recorded."""


def excerpt(expected: Any, observed: Any) -> Any:
    """Return an observed value, or only its first part if it exceeds `MOST_BYTES` and differs from `expected`. The
    first part ends with an ellipsis, so it differs from `expected`, too.
    """
    text = _canonical(observed)
    if len(text) <= MOST_BYTES or text == _canonical(expected):
        return observed
    if not isinstance(observed, dict | list):
        return f"{str(observed)[: MOST_BYTES // 4]}…"
    known = expected if isinstance(expected, dict) else {}
    found = observed if isinstance(observed, list) else sorted(observed.items(), key=lambda each: each[0] not in known)
    kept = found[: sum(size <= MOST_BYTES for size in accumulate(len(_canonical(each)) for each in found))]
    more = f"{len(observed) - len(kept):,} more"
    return {**dict(kept), "…": more} if isinstance(observed, dict) else [*kept, f"… {more}"]


def judge(what: str, expected: Any, observed: Any, *, relation: str = "equal", unknown: str = "") -> Judgement:
    if unknown:
        return Judgement(Verdict.INCONCLUSIVE, f"{what}: could not be told: {unknown}")
    if relation == "preliminary" and expected != observed:
        return Judgement(Verdict.INCONCLUSIVE, f"rests on {what}: {observed}", preliminary=True)
    if relation == "within":
        unmet = _unmet_bounds(expected, observed)
    elif _canonical(expected) != _canonical(observed):
        unmet = f"expected {expected!r}, observed {observed!r}"
    else:
        unmet = ""
    return Judgement(Verdict.FAILED if unmet else Verdict.PASSED, f"{what}: {unmet or 'as expected'}")


def _unmet_bounds(bounds: Any, observed: Any) -> str:
    fewest, most = bounds

    def fits(value: float) -> bool:
        return bool(fewest <= value) and (most is None or bool(value <= most))

    values = sorted(observed.items()) if isinstance(observed, dict) else [("", observed)]
    beyond = ", ".join(f"{name} {value:g}".lstrip() for name, value in values if not fits(value))
    return f"expected {_range(fewest, most)}, observed {beyond}" if beyond else ""


def _range(fewest: float, most: float | None) -> str:
    if most is None:
        return f"at least {fewest:g}"
    return f"{fewest:g}" if fewest == most else f"{fewest:g} to {most:g}" if fewest else f"at most {most:g}"


def _canonical(value: Any) -> bytes:
    return orjson.dumps(value, option=orjson.OPT_SORT_KEYS)
