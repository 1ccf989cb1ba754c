"""Converts values of a history to JSON and back: outcomes, expectations, counts and error rates."""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from itertools import accumulate, pairwise
from typing import Any

from harness.judging.statistics import Rates
from harness.judging.timeline import Timed
from harness.judging.verdict import NO_ANSWER, AnyOf, EqualShares, Expected, NoAnswer, Tally
from harness.model.outcomes import REFUSED, TIMED_OUT, Observation, Reached, Refused, TimedOut, Unknown

_WORDS: Mapping[str, Expected] = {"TIMED_OUT": TIMED_OUT, "REFUSED": REFUSED, "NO_ANSWER": NO_ANSWER}


def observation(value: Observation) -> Any:
    match value:
        case Reached(pod, client_address):
            return {"reached": pod, "from": client_address}
        case TimedOut():
            return "TIMED_OUT"
        case Refused(how):
            return {"refused": how} if how else "REFUSED"
        case Unknown(why):
            return {"unknown": why}


def expected(value: Expected) -> Any:
    """Return an expectation as JSON: a list of pods, a mapping such as {"anyOf": PODS}, or a word such as "REFUSED"."""
    match value:
        case AnyOf(pods):
            return {"anyOf": sorted(pods)}
        case EqualShares(pods):
            return {"evenly": sorted(pods)}
        case TimedOut():
            return "TIMED_OUT"
        case Refused():
            return "REFUSED"
        case NoAnswer():
            return "NO_ANSWER"
    return sorted(value)


def read_expected(value: Any) -> Expected:
    match value:
        case {"anyOf": pods}:
            return AnyOf(frozenset(pods))
        case {"evenly": pods}:
            return EqualShares(frozenset(pods))
    return _WORDS[value] if isinstance(value, str) else frozenset(value)


def tally(value: Tally) -> dict[str, Any]:
    others: dict[str, Any] = {"timedOut": value.timed_out, "refused": value.refused}
    others |= {"refusedBy": dict(sorted(value.refused_by.items())), "unknown": dict(sorted(value.unknown.items()))}
    others["gapMs"] = value.gap_ms
    return {"pods": dict(sorted(value.pods.items())), **{name: each for name, each in others.items() if each}}


def read_tally(value: Mapping[str, Any]) -> Tally:
    return Tally(
        Counter(value["pods"]),
        value.get("timedOut", 0),
        value.get("refused", 0),
        Counter(value.get("unknown", {})),
        value.get("gapMs", 0.0),
        Counter(value.get("refusedBy", {})),
    )


_FIRST = ord("a")  # the letter of the first outcome


def flow(samples: Sequence[Timed]) -> dict[str, Any]:
    """Return steady traffic as JSON: the time of the first request, the intervals in ms, and a letter per request. The
    letter represents the request's outcome: "a" is the first entry of `outcomes`, "b" the second, and so on.
    """
    if not samples:
        return {"at": 0.0, "ms": [], "outcomes": [], "saw": ""}
    begin = samples[0][0]
    whole = [round((at - begin) * 1000) for at, _ in samples]
    seen = [observation(each) for _, each in samples]
    outcomes = list({repr(each): each for each in seen}.values())
    letters = {repr(each): chr(_FIRST + number) for number, each in enumerate(outcomes)}
    return {
        "at": round(begin, 6),
        "ms": [after - before for before, after in pairwise(whole)],
        "outcomes": outcomes,
        "saw": "".join(letters[repr(each)] for each in seen),
    }


def read_flow(value: Mapping[str, Any]) -> list[Timed]:
    """Read the requests that `flow` wrote. Their times are accurate to half a millisecond."""
    outcomes = [read_observation(each) for each in value["outcomes"]]
    seen = [outcomes[ord(letter) - _FIRST] for letter in value["saw"]]
    times = [value["at"] + ms / 1000 for ms in accumulate(value["ms"], initial=0)]
    return list(zip(times, seen, strict=True)) if seen else []


def read_observation(value: Any) -> Observation:
    match value:
        case {"reached": pod, "from": client_address}:
            return Reached(pod, client_address)
        case {"refused": how}:
            return Refused(how)
        case {"unknown": why}:
            return Unknown(why)
        case "TIMED_OUT":
            return TIMED_OUT
        case "REFUSED":
            return REFUSED
    raise ValueError(f"{value!r} is not an observation")


def counts(value: Tally) -> dict[str, float]:
    """Return counts in the form of the report: answers by pod, and other outcomes that occurred."""
    others: dict[str, float] = {"timedOut": value.timed_out, "refused": value.refused}
    others |= {"unknown": value.unknown.total(), "longestGapMs": value.gap_ms}
    return {**dict(sorted(value.pods.items())), **{name: count for name, count in others.items() if count}}


def rates(value: Rates) -> dict[str, float]:
    return asdict(value)


def read_rates(value: Mapping[str, float]) -> Rates:
    """Read rates that `rates` wrote. Older versions of trafficdist wrote no `alarm`, or only `leak` and `miss`."""
    alone, chances = value.get("alone", value["leak"]), int(value.get("chances", 1))
    return Rates(value["leak"], value["miss"], alone, chances, value.get("alarm", value["miss"]))
