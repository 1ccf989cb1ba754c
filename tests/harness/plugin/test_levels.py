"""Tests the effect of MUST, SHOULD and MAY on the exit code, on --fail-fast and on pytest's counts."""

from __future__ import annotations

import re
from typing import Any

import pytest

pytest_plugins = ["pytester"]

UNMET = """
@must("KEP-2/zone-next", level=SHOULD)
def test_zone():
    assert False, "wrong"

@must("KEP-2/any-way", level=MAY)
def test_any():
    assert False, "wrong"
"""

UNTOLD = """
@must("KEP-2/zone-next", level=SHOULD)
def test_zone():
    raise InconclusiveError("no route")
"""

NOT_HERE = UNTOLD.replace("Inconclusive", "Unavailable")


@pytest.mark.parametrize(
    ("names", "extra", "codes", "workers"),
    [
        (("passes",), UNMET, (0, 1), 0),
        pytest.param(("passes",), UNMET, (0, 1), 2, marks=pytest.mark.slow),
        (("passes", "inconclusive"), UNMET, (10, 1), 0),
        (("passes",), UNTOLD, (0, 10), 0),
        (("passes",), UNTOLD, (0, 10), 2),
        (("passes", "fails"), UNTOLD, (1, 1), 0),
        (("passes",), NOT_HERE, (0, 11), 0),
        ((), UNMET.replace("SHOULD", "MAY"), (0, 0), 0),
    ],
)
def test_must_decides_and_should_decides_only_on_request(
    certify: Any, names: tuple[str, ...], extra: str, codes: tuple[int, int], workers: int
) -> None:
    options = (f"--td-workers={workers}",)
    run = certify(*names, extra=extra, options=options)
    strict = certify(*names, extra=extra, options=(*options, "--td-warnings-as-errors"))
    assert (run.code, strict.code) == codes, run.text + strict.text
    assert strict.verdicts == run.verdicts


def test_requirements_not_reached_are_open_at_any_level(certify: Any) -> None:
    run = certify("distrusts", extra=UNMET)
    assert (run.code, run.verdicts["zone-next"]) == (12, "inconclusive")
    assert "Inconclusive" in run.report["profiles"][0]["core"]["statistics"]


@pytest.mark.parametrize("workers", ["0", "2"])
@pytest.mark.parametrize(("strict", "run_on"), [((), True), (("--td-warnings-as-errors",), False)])
def test_fail_fast_stops_at_a_deciding_failure(
    certify: Any, workers: str, strict: tuple[str, ...], run_on: bool
) -> None:
    many = "".join(f'@must("KEP-3/number-{n}")\ndef test_{n}(): time.sleep(0.05)\n' for n in range(30))
    options = ("--td-fail-fast", f"--td-workers={workers}", *strict)
    run = certify(extra="import time\n" + UNMET + many, options=options)
    left_out = [each for each, verdict in run.verdicts.items() if verdict == "skipped"]
    assert (run.code, bool(left_out)) == ((0, False) if run_on else (1, True)), run.text


def test_fail_fast_lists_skipped_requirements(certify: Any) -> None:
    run = certify("fails", "passes", options=("--td-fail-fast",))
    (left_out,) = (test for test in run.report["tests"] if test["id"] == "KEP-1/passes")
    assert (run.code, left_out["reason"]) == (1, "deselected")


@pytest.mark.parametrize("workers", ["0", "2"])
def test_pytest_counts_distinguish_warnings_from_failures(certify: Any, workers: str) -> None:
    run = certify("passes", "fails", extra=UNMET, options=("-v", f"--td-workers={workers}"))
    assert re.search(r"^=+ 1 failed, 1 passed, 1 (noted, 1 warned|warned, 1 noted) in ", run.text, re.MULTILINE), (
        run.text
    )
    assert "_ test_zone _" not in run.text
