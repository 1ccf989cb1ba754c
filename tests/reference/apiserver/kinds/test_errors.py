"""The messages of validation errors. Clients and users rely on them."""

from __future__ import annotations

import pytest

from reference.apiserver.kinds import errors

CASES = [
    (errors.required("spec.ports"), "Required value", "FieldValueRequired"),
    (errors.required("a", "why"), "Required value: why", "FieldValueRequired"),
    (errors.invalid("a", 0, "why"), "Invalid value: 0: why", "FieldValueInvalid"),
    (errors.invalid("a", 'x"y', "why"), 'Invalid value: "x\\"y": why', "FieldValueInvalid"),
    (errors.invalid("a", None, "why"), "Invalid value: null: why", "FieldValueInvalid"),
    (errors.invalid("a", True, "why"), "Invalid value: true: why", "FieldValueInvalid"),
    (errors.invalid("a", ["x", "y"], "why"), 'Invalid value: ["x","y"]: why', "FieldValueInvalid"),
    (
        errors.not_supported("a", "x", ["Cluster", "Local"]),
        'Unsupported value: "x": supported values: "Cluster", "Local"',
        "FieldValueNotSupported",
    ),
    (errors.duplicate("a", "x"), 'Duplicate value: "x"', "FieldValueDuplicate"),
    (errors.too_many("a", 9, 8), "Too many: 9: must have at most 8 items", "FieldValueTooMany"),
    (errors.too_many("a", 2, 1), "Too many: 2: must have at most 1 item", "FieldValueTooMany"),
    (errors.forbidden("a", "why"), "Forbidden: why", "FieldValueForbidden"),
    (errors.too_long("a", 5), "Too long: may not be more than 5 bytes", "FieldValueTooLong"),
]


@pytest.mark.parametrize(("error", "message", "reason"), CASES)
def test_error_text_equals_the_released_one(error, message, reason):
    assert error.as_cause() == {"reason": reason, "message": message, "field": error.field}
    assert str(error) == f"{error.field}: {message}"
