"""Validates status conditions like apimachinery. Released servers do not validate those of Services (KEP-4444)."""

import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from reference.apiserver.kinds import errors, names
from reference.apiserver.kinds.errors import FieldError
from reference.apiserver.kinds.shapes import INTEGER, STRING, Shape, fields, is_time

CONDITION: Shape = {
    **fields(STRING, "type", "status", "lastTransitionTime", "reason", "message"),
    "observedGeneration": INTEGER,
}

MAX_REASON = 1024
MAX_MESSAGE = 32 * 1024

_STATUSES = ("False", "True", "Unknown")
_REASON = r"[A-Za-z]([A-Za-z0-9_,:]*[A-Za-z0-9_])?"
_REASON_RULE = (
    "a condition reason must start with alphabetic character, optionally followed by a string of alphanumeric "
    "characters or '_,:', and must end with an alphanumeric character or '_' "
    "(e.g. 'my_name',  or 'MY_NAME',  or 'MyName',  or "
    f"'ReasonA,ReasonB',  or 'ReasonA:ReasonB', regex used for validation is '{_REASON}')"
)


def validate(conditions: Sequence[Mapping[str, Any]], path: str) -> Iterator[FieldError]:
    seen: set[str] = set()
    for index, each in enumerate(conditions):
        at, kind = f"{path}[{index}]", each.get("type") or ""
        yield from errors.unique(f"{at}.type", kind, seen)
        yield from errors.violations(f"{at}.type", kind, names.qualified_name)
        yield from _validate_condition(each, at)


def _validate_condition(condition: Mapping[str, Any], at: str) -> Iterator[FieldError]:
    if (status := condition.get("status") or "") not in _STATUSES:
        yield errors.not_supported(f"{at}.status", status, _STATUSES)
    if (generation := condition.get("observedGeneration") or 0) < 0:
        yield errors.invalid(f"{at}.observedGeneration", generation, "must be greater than or equal to zero")
    when, field = condition.get("lastTransitionTime") or "", f"{at}.lastTransitionTime"
    if not when:
        yield errors.required(field, "must be set")
    elif not is_time(when):
        yield errors.invalid(field, when, "must be an RFC 3339 time")
    reason = condition.get("reason") or ""
    if not reason:
        yield errors.required(f"{at}.reason", "must be set")
    elif not re.fullmatch(_REASON, reason):
        yield errors.invalid(f"{at}.reason", reason, _REASON_RULE)
    if len(reason) > MAX_REASON:
        yield errors.too_long(f"{at}.reason", MAX_REASON)
    if len(condition.get("message") or "") > MAX_MESSAGE:
        yield errors.too_long(f"{at}.message", MAX_MESSAGE)
