"""The effects of drawn values on labels and selectors, of pods as well as nodes."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from harness.variation import axes
from harness.variation.axes import Draw


@dataclass(slots=True)
class DrawnLabels:
    """Labels and selectors in the drawn form. One value of each key may be written as an empty value."""

    draw: Draw
    _empty: dict[str, str] = field(default_factory=dict)

    def of(self, labels: Mapping[str, str | None]) -> dict[str, str | None]:
        """Return these labels, or this selector, in the drawn form. `None` removes a label."""
        if self.draw[axes.LABELS] != "empty":
            return dict(labels)
        return {
            key: "" if value is not None and value == self._empty.setdefault(key, value) else value
            for key, value in labels.items()
        }

    def before(self, labels: Mapping[str, str | None]) -> dict[str, str | None]:
        """Return the labels that an object has before these, if labels are drawn to change. Otherwise {}."""
        return {
            key: "before" for key, value in labels.items() if value is not None and self.draw[axes.LABELS] == "changed"
        }
