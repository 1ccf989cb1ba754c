"""What pods and nodes say of themselves in their status conditions."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any


def is_true(obj: Mapping[str, Any], kind: str) -> bool:
    """Whether the condition of this type is there, and its status is "True"."""
    conditions = (obj.get("status") or {}).get("conditions") or ()
    return any(each["type"] == kind and each["status"] == "True" for each in conditions)
