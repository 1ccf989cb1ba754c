"""Quantities of resources, such as 100m of CPU or 2Gi of memory."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from reference.apiserver.kinds import errors
from reference.apiserver.kinds.errors import FieldError

_QUANTITY = re.compile(r"([+-]?)(\d+(?:\.\d*)?|\.\d+)(?:[KMGTPE]i|[numkMGTPE]|[eE][+-]?\d+)?")
_SYNTAX = "quantities must match the regular expression '^([+-]?[0-9.]+)([eEinumkKMGTP]*[-+]?[0-9]*)$'"


def validate(amounts: Mapping[str, Any], path: str) -> list[FieldError]:
    """Each value is a quantity, and none is negative."""
    found: list[FieldError] = []
    for name, amount in amounts.items():
        match = _QUANTITY.fullmatch(str(amount))
        if match is None:
            found.append(errors.invalid(f"{path}[{name}]", amount, _SYNTAX))
        elif match[1] == "-" and float(match[2]):
            found.append(errors.invalid(f"{path}[{name}]", amount, "must be greater than or equal to 0"))
    return found
