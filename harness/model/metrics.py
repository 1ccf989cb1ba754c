"""Metrics as a component exposes them, read as values.

Names are those that the component writes: Kubernetes' counters do not all end in `_total`, so no name is mended here.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from prometheus_client.parser import text_string_to_metric_families


@dataclass(frozen=True, slots=True)
class Sample:
    """One line: full name (with `_bucket`, `_sum`, `_count` or `_total`), labels and value."""

    name: str
    labels: Mapping[str, str]
    value: float


class Metrics:
    """All samples of one answer. Raises `ValueError` on what is not the Prometheus text format."""

    def __init__(self, text: str) -> None:
        self.text = text
        self.samples = list(_samples(text))

    def values(self, name: str, **labels: str) -> list[float]:
        """The values of all samples of this name that have these labels, and maybe more."""
        return [
            each.value
            for each in self.samples
            if each.name == name and all(each.labels.get(key) == value for key, value in labels.items())
        ]

    def total(self, name: str, **labels: str) -> float:
        """Their sum; 0 where there is none, as a counter that never counted need not be exposed."""
        return sum(self.values(name, **labels))

    def has(self, name: str) -> bool:
        """Whether there is any sample of this name."""
        return any(each.name == name for each in self.samples)

    def by_label(self, name: str, label: str) -> dict[str, float]:
        """The values of all samples of this name, by one of their labels."""
        return {each.labels.get(label, ""): each.value for each in self.samples if each.name == name}


def _samples(text: str) -> Iterable[Sample]:
    lines = [line for line in text.splitlines() if line and not line.startswith("#")]  # types would mend names
    for family in text_string_to_metric_families("\n".join([*lines, ""])):
        for each in family.samples:
            yield Sample(each.name, each.labels, each.value)
