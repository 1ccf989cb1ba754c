"""Validation of status conditions by the rules of meta/v1. KEP-4444 uses conditions to report on trafficDistribution.

Released servers do not validate conditions of Services. This server rejects malformed conditions, as released servers
do for other kinds (apimachinery's ValidateConditions).
"""

import re
from collections.abc import Mapping, Sequence
from typing import Any

from reference.apiserver.kinds import errors, names
from reference.apiserver.kinds.errors import FieldError
from reference.apiserver.kinds.shapes import INTEGER, STRING, Shape, is_time

CONDITION: Shape = {
    "type": STRING,
    "status": STRING,
    "observedGeneration": INTEGER,
    "lastTransitionTime": STRING,
    "reason": STRING,
    "message": STRING,
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


def validate(conditions: Sequence[Mapping[str, Any]], path: str) -> list[FieldError]:
    """Return the errors of a list of conditions; types must be unique."""
    found: list[FieldError] = []
    seen: set[str] = set()
    for index, each in enumerate(conditions):
        at, kind = f"{path}[{index}]", each.get("type") or ""
        if kind in seen:
            found.append(errors.duplicate(f"{at}.type", kind))
        seen.add(kind)
        found += [errors.invalid(f"{at}.type", kind, said) for said in names.qualified_name(kind)]
        found += _validate_value(each, at) + _validate_texts(each, at)
    return found


def _validate_value(condition: Mapping[str, Any], at: str) -> list[FieldError]:
    found: list[FieldError] = []
    if (status := condition.get("status") or "") not in _STATUSES:
        found.append(errors.not_supported(f"{at}.status", status, _STATUSES))
    if (generation := condition.get("observedGeneration") or 0) < 0:
        found.append(errors.invalid(f"{at}.observedGeneration", generation, "must be greater than or equal to zero"))
    when, field = condition.get("lastTransitionTime") or "", f"{at}.lastTransitionTime"
    if not when:
        found.append(errors.required(field, "must be set"))
    elif not is_time(when):
        found.append(errors.invalid(field, when, "must be a time as in RFC 3339"))
    return found


def _validate_texts(condition: Mapping[str, Any], at: str) -> list[FieldError]:
    found: list[FieldError] = []
    reason = condition.get("reason") or ""
    if not reason:
        found.append(errors.required(f"{at}.reason", "must be set"))
    elif not re.fullmatch(_REASON, reason):
        found.append(errors.invalid(f"{at}.reason", reason, _REASON_RULE))
    if len(reason) > MAX_REASON:
        found.append(errors.too_long(f"{at}.reason", MAX_REASON))
    if len(condition.get("message") or "") > MAX_MESSAGE:
        found.append(errors.too_long(f"{at}.message", MAX_MESSAGE))
    return found
