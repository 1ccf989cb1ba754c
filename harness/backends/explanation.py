"""Explains a Service's routing with an installed package that has entry point `service` in this `GROUP`."""

from harness.api.client import Api
from harness.model.entry_points import installed
from harness.model.release import Release

GROUP = "trafficdist.explanations"


def explained(api: Api, namespace: str, service: str, release: Release) -> str:
    """Return as text the decisions that a Service's objects require, or "" if no such package is installed."""
    follow = "kep" if release.follows == "kep" else "released"
    for each in installed(GROUP, "service"):
        return str(each.load()(api, namespace, service, follow))
    return ""
