"""Explains a Service's routing, if a package with entry point `service` in group `GROUP` is installed."""

from harness.api.client import Api
from harness.model.entry_points import installed
from harness.model.release import Release

GROUP = "trafficdist.explanations"


def explained(api: Api, namespace: str, service: str, release: Release) -> str:
    """Return a text about the routing that a Service's objects require, or "" if no package has the entry point."""
    follow = "kep" if release.follows == "kep" else "released"
    for each in installed(GROUP, "service"):
        return str(each.load()(api, namespace, service, follow))
    return ""
