"""Field errors. Their messages and paths are those of apimachinery's field.Error, because clients compare them."""

import json
from collections.abc import Collection, Iterable
from dataclasses import dataclass
from typing import Any, Literal

from reference.apiserver.kinds.names import Rule

ErrorType = Literal[
    "Required", "Invalid", "TypeInvalid", "NotSupported", "Duplicate", "TooMany", "Forbidden", "TooLong"
]

_LABELS: dict[str, str] = {
    "Required": "Required value",
    "Invalid": "Invalid value",
    "TypeInvalid": "Invalid value",
    "NotSupported": "Unsupported value",
    "Duplicate": "Duplicate value",
    "TooMany": "Too many",
    "Forbidden": "Forbidden",
    "TooLong": "Too long",
}
_WITHOUT_VALUE = ("Required", "Forbidden", "TooLong")


@dataclass(frozen=True, slots=True)
class FieldError:
    """One invalid field. `field` is its path, for example `spec.ports[0].port`."""

    type: ErrorType
    field: str
    value: Any = None
    detail: str = ""

    @property
    def message(self) -> str:
        """The message without the path: `Unsupported value: "x": supported values: "Cluster", "Local"`."""
        label = _LABELS[self.type]
        body = label if self.type in _WITHOUT_VALUE else f"{label}: {_shown(self.value)}"
        return f"{body}: {self.detail}" if self.detail else body

    def as_cause(self) -> dict[str, str]:
        """Return the entry for `details.causes` of a Status."""
        return {"reason": f"FieldValue{self.type}", "message": self.message, "field": self.field}

    def __str__(self) -> str:
        return f"{self.field}: {self.message}"


def required(field: str, detail: str = "") -> FieldError:
    return FieldError("Required", field, "", detail)


def invalid(field: str, value: Any, detail: str) -> FieldError:
    return FieldError("Invalid", field, value, detail)


def wrong_type(field: str, value: Any, wanted: str, shown: str) -> FieldError:
    """Return the error for a value that does not have the type or format that its schema requires."""
    return FieldError("TypeInvalid", field, value, f'{field} in body must be of type {wanted}: "{shown}"')


def not_supported(field: str, value: Any, supported: Iterable[str]) -> FieldError:
    """Return the error for a value that is not in `supported`. The message keeps the order of `supported`."""
    return FieldError("NotSupported", field, value, "supported values: " + ", ".join(f'"{each}"' for each in supported))


def choice(field: str, value: str, supported: Collection[str]) -> list[FieldError]:
    """Return an error if a value is empty or not in `supported`."""
    if not value:
        return [required(field)]
    return [] if value in supported else [not_supported(field, value, supported)]


def violations(field: str, value: str, rule: Rule) -> list[FieldError]:
    """Return an error for each reason why a value violates a rule from the module `names`."""
    complaints = rule(value)
    return [invalid(field, value, each) for each in complaints] if complaints else []


def unique(field: str, value: str, seen: set[str]) -> list[FieldError]:
    """Return an error if `seen` contains the value. Otherwise, add the value to `seen`."""
    found = [duplicate(field, value)] if value in seen else []
    seen.add(value)
    return found


def duplicate(field: str, value: Any) -> FieldError:
    return FieldError("Duplicate", field, value)


def too_many(field: str, count: int, limit: int) -> FieldError:
    return FieldError("TooMany", field, count, f"must have at most {limit} item{'' if limit == 1 else 's'}")


def forbidden(field: str, detail: str) -> FieldError:
    return FieldError("Forbidden", field, "", detail)


def too_long(field: str, limit: int) -> FieldError:
    return FieldError("TooLong", field, "", f"may not be more than {limit} bytes")


def _shown(value: Any) -> str:
    if value is None:
        return "null"
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"))
