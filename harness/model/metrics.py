"""Parse the metrics of a component."""

import re
from collections.abc import Mapping

from prometheus_client.parser import text_string_to_metric_families

_GATE = re.compile(r'^kubernetes_feature_enabled\{[^}]*?name="(?P<name>[^"]+)"[^}]*\} (?P<value>[01])', re.MULTILINE)


def enabled_gates(metrics: str) -> dict[str, bool]:
    return {found["name"]: found["value"] == "1" for found in _GATE.finditer(metrics)}


SUCCESSORS: Mapping[str, str] = {"endpoint_slice_controller_changes": "endpoint_slice_controller_changes_total"}
"""Metrics that later Kubernetes releases hide, each with the metric that replaces it."""


class Metrics:
    """The samples of a text in the Prometheus exposition format. Raises `ValueError` for any other text."""

    def __init__(self, text: str) -> None:
        self.text = text
        lines = [line for line in text.splitlines() if line and not line.startswith("#")]  # TYPE lines change names
        families = text_string_to_metric_families("\n".join([*lines, ""]))
        self.samples = [each for family in families for each in family.samples]  # names with `_bucket`, `_sum`, …

    def values(self, name: str, **labels: str) -> list[float]:
        """Return the values of all samples of this metric, or of its successor, that have at least these labels."""
        if name in SUCCESSORS and all(each.name != name for each in self.samples):
            name = SUCCESSORS[name]
        return [
            each.value
            for each in self.samples
            if each.name == name and all(each.labels.get(key) == value for key, value in labels.items())
        ]

    def total(self, name: str, **labels: str) -> float:
        """Return the sum of `values`. It is 0 if there is no sample, because components may omit unused counters."""
        return sum(self.values(name, **labels))
