"""Explain the routing that a Service's objects require, if a package for explanations is installed.

It registers in entry-point group `trafficdist.explanations` under the name `service`.
"""

from __future__ import annotations

from typing import Literal

from harness.api.client import Api
from harness.model.entry_points import installed

GROUP = "trafficdist.explanations"


def explained(api: Api, namespace: str, service: str, follow: Literal["kep", "released"]) -> str:
    """Return the decisions that the objects of a Service require, as text; "" if no package explains them."""
    for each in installed(GROUP, "service"):
        return str(each.load()(api, namespace, service, follow))
    return ""
