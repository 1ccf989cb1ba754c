"""Tests the evaluation of workflow expressions."""

from __future__ import annotations

from typing import Any

import pytest

from tests.harness.deploy.expressions import ExpressionError, evaluate, fill

VALUES = {"github": {"event_name": "schedule", "ref_name": "main"}, "matrix": {"kubernetes": {"minor": "1.34"}}}
FUNCTIONS = {"cancelled": lambda: False, "hashFiles": lambda pattern: "" if pattern == "none" else "sum"}


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("'it''s'", "it's"),
        ("matrix.kubernetes.minor", "1.34"),
        ("${{ !cancelled() && hashFiles('none') != '' }}", False),
        ("!cancelled() && hashFiles('some') != ''", True),
        ("github.ref_name == 'MAIN'", True),
        ("'' || 'b' && 'c'", "c"),
        ("('a' || 'b') && !'c'", False),
        ("hashFiles('some') != '' && (github.event_name == 'push' ||\n github.ref_name == 'main')", True),
    ],
)
def test_expression_evaluates_as_on_github(text: str, value: Any) -> None:
    assert evaluate(text, VALUES, FUNCTIONS) == value


def test_expressions_in_a_text_are_filled_in() -> None:
    text = "night-${{ matrix.kubernetes.minor }}-${{github.ref_name}}"
    assert fill(text, VALUES, FUNCTIONS) == "night-1.34-main"


@pytest.mark.parametrize("text", ["matrix.mode", "always()", "1 + 1", "'a' 'b'", "('a'", "!", "contains('a' 'b')", ""])
def test_unknown_name_is_an_error(text: str) -> None:
    with pytest.raises(ExpressionError):
        evaluate(text, VALUES, FUNCTIONS)
