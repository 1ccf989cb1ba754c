"""Explain the routing that a Service's objects require, if a package for explanations is installed.

It registers in entry-point group `trafficdist.explanations` under the name `service`.
"""

from __future__ import annotations

from harness.api.client import Api
from harness.model.entry_points import installed
from harness.model.release import Release

GROUP = "trafficdist.explanations"


def explained(api: Api, namespace: str, service: str, release: Release) -> str:
    """Return the decisions that the objects of a Service require, as text; "" if no package explains them."""
    follow = "kep" if release.follows == "kep" else "released"
    for each in installed(GROUP, "service"):
        return str(each.load()(api, namespace, service, follow))
    return ""
