"""Parse the metrics of a component. Names are unchanged, because some Kubernetes counters do not end in `_total`."""

from __future__ import annotations

import re

from prometheus_client.parser import text_string_to_metric_families

_GATE = re.compile(r'^kubernetes_feature_enabled\{[^}]*?name="(?P<name>[^"]+)"[^}]*\} (?P<value>[01])', re.MULTILINE)


def enabled_gates(metrics: str) -> dict[str, bool]:
    """Return whether each feature gate in a component's metrics is on."""
    return {found["name"]: found["value"] == "1" for found in _GATE.finditer(metrics)}


class Metrics:
    """All samples of a text in the Prometheus format. Raises `ValueError` for other texts."""

    def __init__(self, text: str) -> None:
        self.text = text
        lines = [line for line in text.splitlines() if line and not line.startswith("#")]  # TYPE lines change names
        families = text_string_to_metric_families("\n".join([*lines, ""]))
        self.samples = [each for family in families for each in family.samples]  # names with `_bucket`, `_sum`, …

    def values(self, name: str, **labels: str) -> list[float]:
        """Return the values of all samples with this name and at least these labels."""
        return [
            each.value
            for each in self.samples
            if each.name == name and all(each.labels.get(key) == value for key, value in labels.items())
        ]

    def total(self, name: str, **labels: str) -> float:
        """Return the sum of these values. It is 0 without a sample, because components may omit unused counters."""
        return sum(self.values(name, **labels))

    def has(self, name: str) -> bool:
        """Return whether there is a sample with this name."""
        return any(each.name == name for each in self.samples)
