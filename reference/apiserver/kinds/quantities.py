"""Quantities of resources, such as 100m of CPU or 2Gi of memory."""

from __future__ import annotations

import re
from collections.abc import Mapping
from decimal import Decimal
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


_BINARY = {letter + "i": 1024**power for power, letter in enumerate("KMGTPE", 1)}
_DECIMAL = {
    letter: Decimal(10) ** power for letter, power in zip("numkMGTPE", (-9, -6, -3, 3, 6, 9, 12, 15, 18), strict=True)
}


def amount(text: Any) -> Decimal:
    """A quantity as a number; 0 for what is none."""
    match = _QUANTITY.fullmatch(str(text))
    if match is None:
        return Decimal(0)
    number, suffix = Decimal(match[1] + match[2]), str(text)[match.end(2) :]
    if suffix[:1] in {"e", "E"} and suffix != "E":
        return number * Decimal(10) ** int(suffix[1:])
    return number * (_BINARY.get(suffix) or _DECIMAL.get(suffix) or 1)


def shown(number: Decimal, name: str) -> str:
    """A number as people write it: memory in Ki, Mi, …, of everything else parts as thousandths."""
    if name.endswith("memory") and number:
        for suffix, factor in reversed(_BINARY.items()):
            if number % factor == 0:
                return f"{number // factor}{suffix}"
    whole = number.to_integral_value()
    return str(int(whole)) if whole == number else f"{int(number * 1000)}m"
