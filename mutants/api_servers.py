"""API servers with one fault each: a lost field, a value that is wrongly accepted or rejected, or a missing default."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from mutants.mutant import WRITTEN, Mutant
from reference.apiserver.kinds import FieldError, Strategy, errors
from reference.apiserver.kinds.endpointslices import EndpointSlices
from reference.apiserver.kinds.services import Services
from reference.client import Object
from reference.features import NEWEST as NEWEST_VERSION
from reference.features import Features

NEWEST = Features(NEWEST_VERSION)
FIELD = "spec.trafficDistribution"
AFFINITY_TIME = "spec.sessionAffinityConfig.clientIP.timeoutSeconds"

MUTANTS: list[Mutant] = []


def _fault(name: str, sentence: str, provenance: str = "") -> Callable[[type[Strategy]], type[Strategy]]:
    """Create a mutant that changes the validation rules of one kind."""

    def register(kind: type[Strategy]) -> type[Strategy]:
        MUTANTS.append(Mutant(name, sentence, provenance, WRITTEN, kinds=lambda: (kind(),)))
        return kind

    return register


def _not_about(found: list[FieldError], *fields: str, but: str = "") -> list[FieldError]:
    """Return the errors about fields other than `fields`, and all errors of type `but`."""
    return [each for each in found if not each.field.startswith(fields) or each.type == but]


@_fault("loses-the-field", "The API server removes trafficDistribution from Services.", "kube-apiserver before 1.30")
class _DropsTrafficDistribution(Services):
    def decode(self, obj: Object, features: Features) -> list[str]:
        (obj.get("spec") or {}).pop("trafficDistribution", None)
        return super().decode(obj, features)


@_fault("refuses-new-values", "The API server rejects PreferSameZone and PreferSameNode.", "kube-apiserver before 1.34")
class _RejectsPreferSameValues(Services):
    def validate(self, obj: Object, features: Features) -> list[FieldError]:
        value = obj["spec"].get("trafficDistribution")
        known = value not in ("PreferSameZone", "PreferSameNode")
        new = [] if known else [errors.not_supported(FIELD, value, ["PreferClose"])]
        return super().validate(obj, features) + new


@_fault("accepts-every-value", "The API server stores any value of trafficDistribution.")
class _AcceptsAnyDistribution(Services):
    def validate(self, obj: Object, features: Features) -> list[FieldError]:
        return _not_about(super().validate(obj, features), FIELD)


@_fault("drops-what-is-no-text", "The API server silently removes a trafficDistribution that is not a string.")
class _DropsNonStrings(Services):
    def decode(self, obj: Object, features: Features) -> list[str]:
        spec = obj.get("spec") or {}
        if not isinstance(spec.get("trafficDistribution", ""), str):
            del spec["trafficDistribution"]
        return super().decode(obj, features)


@_fault("names-no-field", "Validation errors of the API server do not name the field.")
class _OmitsFieldInErrors(Services):
    def validate(self, obj: Object, features: Features) -> list[FieldError]:
        return [replace(each, field="spec") for each in super().validate(obj, features)]

    def validate_update(self, new: Object, old: Object, features: Features) -> list[FieldError]:
        return [replace(each, field="spec") for each in Services().validate_update(new, old, features)]


@_fault("field-is-fixed", "The API server rejects changes to trafficDistribution on an existing Service.")
class _ImmutableDistribution(Services):
    def validate_update(self, new: Object, old: Object, features: Features) -> list[FieldError]:
        was, now = (each["spec"].get("trafficDistribution") for each in (old, new))
        fixed = [errors.invalid(FIELD, now, "field is immutable")] if was != now else []
        return super().validate_update(new, old, features) + fixed


@_fault(
    "drops-stored-policies",
    "With the gate of internalTrafficPolicy off, the API server drops the field from Services that have it.",
)
class _DropsStoredPolicies(Services):
    def prepare_for_update(self, new: Object, old: Object, features: Features) -> None:
        super().prepare_for_update(new, old, features)
        if not features.enabled("ServiceInternalTrafficPolicy"):
            new["spec"].pop("internalTrafficPolicy", None)


@_fault("field-excludes-policies", "The API server rejects trafficDistribution together with a Local traffic policy.")
class _RejectsDistributionWithLocal(Services):
    def validate(self, obj: Object, features: Features) -> list[FieldError]:
        spec = obj["spec"]
        both = "trafficDistribution" in spec and "Local" in (
            spec.get("internalTrafficPolicy"),
            spec.get("externalTrafficPolicy"),
        )
        return super().validate(obj, features) + ([errors.forbidden(FIELD, "not beside Local")] if both else [])


@_fault(
    "annotations-may-contradict",
    "The API server stores topology annotations that contradict each other.",
    "kube-apiserver before 1.27",
)
class _AcceptsContradictingAnnotations(Services):
    def validate(self, obj: Object, features: Features) -> list[FieldError]:
        return _not_about(super().validate(obj, features), "metadata.annotations")


@_fault("no-default-policy", "The API server sets no default for internalTrafficPolicy.")
class _NoDefaultInternalPolicy(Services):
    def default(self, obj: Object) -> None:
        given = "internalTrafficPolicy" in obj["spec"]
        super().default(obj)
        if not given:
            obj["spec"].pop("internalTrafficPolicy", None)

    def validate(self, obj: Object, features: Features) -> list[FieldError]:
        return _not_about(super().validate(obj, features), "spec.internalTrafficPolicy", but="NotSupported")


@_fault(
    "external-policy-anywhere", "The API server stores externalTrafficPolicy on Services without external addresses."
)
class _AcceptsExternalPolicyOnAnyType(Services):
    def validate(self, obj: Object, features: Features) -> list[FieldError]:
        return _not_about(super().validate(obj, features), "spec.externalTrafficPolicy", but="NotSupported")


@_fault("loses-node-hints", "The API server removes node hints from slices.", "kube-apiserver before 1.34")
class _DropsNodeHints(EndpointSlices):
    def decode(self, obj: Object, features: Features) -> list[str]:
        for endpoint in obj.get("endpoints") or []:
            (endpoint.get("hints") or {}).pop("forNodes", None)
        return super().decode(obj, features)


@_fault("unlimited-hints", "The API server stores any number of hints with any names.")
class _UnlimitedHints(EndpointSlices):
    def validate(self, obj: Object, features: Features) -> list[FieldError]:
        return [
            each for each in super().validate(obj, features) if ".hints" not in each.field or each.type == "Duplicate"
        ]


@_fault("unlimited-endpoints", "The API server stores slices with any number of endpoints.")
class _UnlimitedEndpoints(EndpointSlices):
    def validate(self, obj: Object, features: Features) -> list[FieldError]:
        return [each for each in super().validate(obj, features) if each.field != "endpoints"]


@_fault("slices-of-any-syntax", "The API server validates only the hints and the number of endpoints of a slice.")
class _SkipsSliceValidation(EndpointSlices):
    def validate(self, obj: Object, features: Features) -> list[FieldError]:
        return [each for each in super().validate(obj, features) if ".hints" in each.field or each.field == "endpoints"]


@_fault("slices-change-their-type", "The API server allows changes to a slice's address type.")
class _MutableAddressType(EndpointSlices):
    def validate_update(self, new: Object, old: Object, features: Features) -> list[FieldError]:
        return _not_about(super().validate_update(new, old, features), "addressType")


@_fault("hints-may-repeat", "The API server accepts the same node or zone twice in the hints of an endpoint.")
class _AcceptsDuplicateHints(EndpointSlices):
    def validate(self, obj: Object, features: Features) -> list[FieldError]:
        return [
            each for each in super().validate(obj, features) if ".hints" not in each.field or each.type != "Duplicate"
        ]


@_fault("hints-do-not-count", "The API server does not increase the generation of a slice when only its hints change.")
class _GenerationIgnoresHints(EndpointSlices):
    def spec_changed(self, new: Object, old: Object) -> bool:
        return super().spec_changed(_without_hints(new), _without_hints(old))


def _without_hints(obj: Object) -> Object:
    return {**obj, "endpoints": [{**each, "hints": None} for each in obj.get("endpoints") or []]}


@_fault("node-hints-add-up", "The API server merges node hints of an update with the existing node hints.")
class _MergesNodeHints(EndpointSlices):
    def prepare_for_update(self, new: Object, old: Object, features: Features) -> None:
        before = {each["addresses"][0]: _nodes(each) for each in old.get("endpoints") or []}
        for each in new.get("endpoints") or []:
            kept = [one for one in before.get(each["addresses"][0], []) if one not in _nodes(each)]
            if kept:
                each["hints"] = {**(each.get("hints") or {}), "forNodes": kept + _nodes(each)}
        super().prepare_for_update(new, old, features)


def _nodes(endpoint: Object) -> list[Object]:
    return list((endpoint.get("hints") or {}).get("forNodes") or [])


@_fault("does-not-warn", "The API server does not warn that PreferClose is deprecated.", "kube-apiserver before 1.35")
class _NoDeprecationWarning(Services):
    def warnings(self, obj: Object, features: Features = NEWEST) -> list[str]:
        return [each for each in super().warnings(obj, features) if "PreferClose" not in each]


class _UnmodelledVersion(str):
    """A version for which the server has no model, so the OpenAPI document does not describe the kind's fields."""

    __slots__ = ()

    def title(self) -> str:
        return "Unknown"


@_fault("describes-no-services", "The OpenAPI document does not describe the fields of Services.")
class _NoServicesInOpenApi(Services):
    resource = replace(Services.resource, version=_UnmodelledVersion("v1"), short_names=("svc", "undescribed"))


@_fault("no-default-affinity-time", "The API server sets no default for the timeoutSeconds of session affinity.")
class _NoDefaultAffinityTimeout(Services):
    def default(self, obj: Object) -> None:
        given = (obj.get("spec") or {}).get("sessionAffinityConfig")
        super().default(obj)
        if given is None:
            obj["spec"].pop("sessionAffinityConfig", None)

    def validate(self, obj: Object, features: Features) -> list[FieldError]:
        return _not_about(super().validate(obj, features), AFFINITY_TIME, but="Invalid")


@_fault("any-affinity-time", "The API server stores any value of timeoutSeconds for session affinity.")
class _AcceptsAnyAffinityTimeout(Services):
    def validate(self, obj: Object, features: Features) -> list[FieldError]:
        return _not_about(super().validate(obj, features), AFFINITY_TIME)
