"""API servers that behave like a different release, or mishandle objects that another release stored."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from mutants.mutant import WRITTEN, Mutant
from reference.apiserver import ApiServer
from reference.apiserver.kinds import FieldError, errors
from reference.apiserver.kinds.endpointslices import EndpointSlices
from reference.apiserver.kinds.services import Services
from reference.apiserver.registry import Registry
from reference.client import Object
from reference.features import Features

FIELD = "spec.trafficDistribution"


def _newest(features: Features, **options: Any) -> ApiServer:
    return ApiServer(replace(Features(), follows=features.follows), **options)


def _other_reading(features: Features, **options: Any) -> ApiServer:
    return ApiServer(replace(features, follows="kep" if features.follows == "released" else "released"), **options)


class _ServesAllStoredFields(ApiServer):
    """Serves a store as if this release had every stored field."""

    def __init__(self, features: Features, *, predecessor: ApiServer | None = None) -> None:
        super().__init__(features)
        if predecessor is not None:
            before = predecessor.registry
            store = before.store.hand_over({})
            self.registry = Registry(before.strategies.values(), features, store=store, pools=before.pools)


class _RewritesOnStart(ApiServer):
    """On start, rewrites every stored object without the fields that this release lacks."""

    def __init__(self, features: Features, *, predecessor: ApiServer | None = None) -> None:
        super().__init__(features, predecessor=predecessor)
        store = self.registry.store
        for resource in self.registry.strategies:
            for stored in store.items(resource):
                if stored.hides:
                    store.put(resource, stored.copy())


class _DropsStoredFields(Services):
    """Removes the field from every Service that is written while the field's gate is disabled."""

    def prepare_for_update(self, new: Object, old: Object, features: Features) -> None:
        super().prepare_for_update(new, old, features)
        if not features.enabled("ServiceTrafficDistribution"):
            new["spec"].pop("trafficDistribution", None)


class _RejectsStoredValues(Services):
    """Validates a stored value as if it were new."""

    def validate_update(self, new: Object, old: Object, features: Features) -> list[FieldError]:
        value = old["spec"].get("trafficDistribution")
        known = value in (None, "PreferClose") or features.enabled("PreferSameTrafficDistribution")
        refused = [] if known else [errors.not_supported(FIELD, value, ["PreferClose"])]
        return super().validate_update(new, old, features) + refused


class _DropsZoneHintsToo(EndpointSlices):
    """Removes all hints, although the gate covers only node hints."""

    def prepare_for_create(self, obj: Object, features: Features) -> None:
        super().prepare_for_create(obj, features)
        _drop_hints(obj, features)

    def prepare_for_update(self, new: Object, old: Object, features: Features) -> None:
        super().prepare_for_update(new, old, features)
        _drop_hints(new, features)


def _drop_hints(obj: Object, features: Features) -> None:
    if not features.enabled("PreferSameTrafficDistribution"):
        for endpoint in obj.get("endpoints") or ():
            (endpoint.get("hints") or {}).pop("forZones", None)


MUTANTS = [
    Mutant(
        "newest-api-server-at-any-release",
        "The API server behaves like the newest release, whatever release and gates are configured.",
        symptom=WRITTEN,
        api_server=_newest,
    ),
    Mutant(
        "follows-the-other-reading",
        "The API server follows released Kubernetes when it is configured to follow the KEPs, and vice versa.",
        symptom=WRITTEN,
        api_server=_other_reading,
    ),
    Mutant(
        "serves-fields-of-later-releases",
        "The API server serves stored fields that its release lacks.",
        symptom=WRITTEN,
        api_server=_ServesAllStoredFields,
    ),
    Mutant(
        "forgets-fields-of-later-releases",
        "The API server rewrites objects from a later release without the fields that its own release lacks.",
        symptom=WRITTEN,
        api_server=_RewritesOnStart,
    ),
    Mutant(
        "drops-stored-fields",
        "With the gate off, the API server drops a stored trafficDistribution.",
        symptom=WRITTEN,
        kinds=lambda: (_DropsStoredFields(),),
    ),
    Mutant(
        "refuses-stored-values",
        "With the gate off, the API server rejects updates of Services that have one of the newer values stored.",
        symptom=WRITTEN,
        kinds=lambda: (_RejectsStoredValues(),),
    ),
    Mutant(
        "drops-zone-hints-too",
        "With the gate of node hints off, the API server also drops zone hints.",
        symptom=WRITTEN,
        kinds=lambda: (_DropsZoneHintsToo(),),
    ),
]
