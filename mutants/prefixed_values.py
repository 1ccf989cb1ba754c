"""Controllers and API servers that mishandle values with a domain prefix."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from typing import Any

from mutants.mutant import WRITTEN, Mutant
from reference.apiserver.kinds import FieldError, errors
from reference.apiserver.kinds.services import Services
from reference.client import Object
from reference.endpointslice import EndpointSliceController
from reference.endpointslice.plan import SlicePlan, plan_service
from reference.features import Features
from reference.heuristics import Endpoint, Hints, Node, PreferNextZone

FIELD = "spec.trafficDistribution"
SAMPLE = "trafficdist.dev/PreferNextZone"


class _RejectsDomains(Services):
    """Rejects values with a domain prefix, as released Kubernetes does."""

    def validate(self, obj: Object, features: Features) -> list[FieldError]:
        value = obj["spec"].get("trafficDistribution") or ""
        return super().validate(obj, features) + (
            [errors.not_supported(FIELD, value, ["PreferClose"])] if "/" in value else []
        )


class _AcceptsAnySlash(Services):
    """Accepts any value with a slash as a domain and a name."""

    def validate(self, obj: Object, features: Features) -> list[FieldError]:
        found = super().validate(obj, features)
        slash = "/" in (obj["spec"].get("trafficDistribution") or "")
        return [each for each in found if not (slash and each.field == FIELD)]


def _unknown_is_close(service: Object, *others: Any, **options: Any) -> SlicePlan:
    """Plan like `plan_service`, but treat any value with a domain prefix as PreferClose."""
    spec = service["spec"]
    if "/" in (spec.get("trafficDistribution") or ""):
        service = {**service, "spec": {**spec, "trafficDistribution": "PreferClose"}}
    return plan_service(service, *others, **options)


class _HintsOwnZoneOnly(PreferNextZone):
    """Hints no endpoint for other zones."""

    def hints(self, endpoints: Any, nodes: Mapping[str, Node]) -> Mapping[Endpoint, Hints]:
        return {each: Hints(zones=given.zones[:1]) for each, given in super().hints(endpoints, nodes).items()}


MUTANTS = [
    Mutant(
        "refuses-values-with-a-domain",
        "The API server rejects values of trafficDistribution with a domain prefix.",
        "released kube-apiserver",
        WRITTEN,
        kinds=lambda: (_RejectsDomains(),),
    ),
    Mutant(
        "takes-any-value-with-a-slash",
        "The API server stores any trafficDistribution with a slash, even if it is malformed.",
        "",
        WRITTEN,
        kinds=lambda: (_AcceptsAnySlash(),),
    ),
    Mutant(
        "domains-mean-prefer-close",
        "The controller treats any value with a domain prefix as PreferClose.",
        "",
        WRITTEN,
        controller=partial(EndpointSliceController, plan=_unknown_is_close),
    ),
    Mutant(
        "knows-no-heuristics",
        "The controller does not find installed heuristics.",
        "",
        WRITTEN,
        controller=partial(EndpointSliceController, heuristics={}),
    ),
    Mutant(
        "hints-of-a-heuristic-cut-short",
        "If a heuristic hints an endpoint for several zones, the controller writes only the first zone.",
        "",
        WRITTEN,
        controller=partial(EndpointSliceController, heuristics={SAMPLE: _HintsOwnZoneOnly()}),
    ),
]
