"""CustomResourceDefinitions. Conversion webhooks are refused. CEL rules are not evaluated, and cause a warning."""

from collections.abc import Iterator, Mapping
from typing import Any

from reference.apiserver.kinds import columns, errors, json_paths, names, schema_rules
from reference.apiserver.kinds.errors import FieldError
from reference.apiserver.kinds.shapes import ANY, BOOLEAN, CONDITION, INTEGER, OTHERS, STRING, Shape, fields, of_object
from reference.apiserver.kinds.strategy import ALL_BUT_STATUS, Resource, Strategy
from reference.client import Object
from reference.features import Features
from reference.objects.timestamps import timestamp

CLEANUP = "customresourcecleanup.apiextensions.k8s.io"
"""The finalizer that keeps a deleted definition until all of its objects are removed."""

MAX_VERSIONS = 20
APPROVED = "api-approved.kubernetes.io"
_NAMES: Shape = {
    **fields(STRING, "plural", "singular", "kind", "listKind"),
    "shortNames": [STRING],
    "categories": [STRING],
}
_PATHS = ("specReplicasPath", "statusReplicasPath", "labelSelectorPath")
_VERSION: Shape = {
    **fields(BOOLEAN, "served", "storage", "deprecated"),
    **fields(STRING, "name", "deprecationWarning"),
    "schema": {"openAPIV3Schema": ANY},
    "subresources": {"status": {OTHERS: ANY}, "scale": fields(STRING, *_PATHS)},
    "additionalPrinterColumns": [
        {**fields(STRING, "name", "type", "format", "description", "jsonPath"), "priority": INTEGER}
    ],
    "selectableFields": [{"jsonPath": STRING}],
}
_COLUMN_TYPES = ("boolean", "date", "integer", "number", "string")


class CustomResourceDefinitions(Strategy):
    resource = Resource(
        "apiextensions.k8s.io",
        "v1",
        "CustomResourceDefinition",
        "customresourcedefinitions",
        "customresourcedefinition",
        ("crd", "crds"),
        namespaced=False,
        has_status=True,
        categories=("api-extensions",),
    )
    shape = of_object(
        spec={
            "group": STRING,
            "names": _NAMES,
            "scope": STRING,
            "preserveUnknownFields": BOOLEAN,
            "conversion": {"strategy": STRING, "webhook": ANY},
            "versions": [_VERSION],
        },
        status={"conditions": [CONDITION], "acceptedNames": _NAMES, "storedVersions": [STRING], OTHERS: ANY},
    )
    kept_by_status = ALL_BUT_STATUS
    generation_since = 0
    table = (
        columns.NAME,
        columns.text("Created At", "Creation time.", lambda obj: obj["metadata"].get("creationTimestamp", "")),
    )

    def decode(self, obj: Object, features: Features) -> list[str]:
        unknown = super().decode(obj, features)
        for index, version in enumerate((obj.get("spec") or {}).get("versions") or ()):
            schema = version.get("schema") or {}
            if "openAPIV3Schema" in schema:
                path = f"spec.versions[{index}].schema.openAPIV3Schema"
                unknown += schema_rules.conform(schema["openAPIV3Schema"], path)
        return unknown

    def default(self, obj: Object) -> None:
        spec = obj.setdefault("spec", {})
        spec.setdefault("conversion", {}).setdefault("strategy", "None")
        given = spec.setdefault("names", {})
        if kind := given.get("kind"):
            given.setdefault("singular", kind.lower())
            given.setdefault("listKind", f"{kind}List")
        for each in spec.get("versions") or ():
            each.setdefault("served", False)
            each.setdefault("storage", False)

    def prepare_for_create(self, obj: Object, features: Features) -> None:
        obj["status"] = _status(obj, {})

    def prepare_for_update(self, new: Object, old: Object, features: Features) -> None:
        super().prepare_for_update(new, old, features)
        new["status"] = _status(new, new.get("status") or {})

    def validate(self, obj: Object, features: Features) -> list[FieldError]:
        spec, wanted = obj["spec"], f"{obj['spec']['names'].get('plural')}.{obj['spec'].get('group')}"
        found = super().validate(obj, features)
        if obj["metadata"].get("name") != wanted:
            said = 'must be spec.names.plural+"."+spec.group'
            found.append(errors.invalid("metadata.name", obj["metadata"].get("name"), said))
        found += _names(spec)
        if _is_protected(spec.get("group") or "") and not (obj["metadata"].get("annotations") or {}).get(APPROVED):
            said = "protected groups must have approval annotation, see https://github.com/kubernetes/enhancements/pull/1111"
            found.append(errors.required(f"metadata.annotations[{APPROVED}]", said))
        if spec.get("preserveUnknownFields"):
            found.append(errors.invalid("spec.preserveUnknownFields", True, "must be false"))
        if spec["conversion"]["strategy"] != "None":
            found.append(errors.not_supported("spec.conversion.strategy", spec["conversion"]["strategy"], ["None"]))
        return found + list(_versions(spec.get("versions") or []))

    def validate_update(self, new: Object, old: Object, features: Features) -> list[FieldError]:
        found = super().validate_update(new, old, features)
        for path in (("group",), ("scope",), ("names", "kind"), ("names", "plural")):
            now, was = new["spec"], old["spec"]
            for name in path:
                now, was = now.get(name), was.get(name)
            if now != was:
                found.append(errors.invalid(".".join(("spec", *path)), now, "field is immutable"))
        return found

    def warnings(self, obj: Object, features: Features) -> list[str]:
        return [
            f"spec.versions[{index}].schema: this server does not evaluate the rules in x-kubernetes-validations"
            for index, each in enumerate(obj["spec"]["versions"])
            if schema_rules.rules_in(each["schema"]["openAPIV3Schema"])
        ]


def _status(obj: Object, before: Mapping[str, Any]) -> Object:
    """Return the status of a definition: `Established`, because its kind is served immediately."""
    wanted = (
        ("NamesAccepted", "NoConflicts", "no conflicts found"),
        ("Established", "InitialNamesAccepted", "the initial names have been accepted"),
    )
    known = {each["type"]: each for each in before.get("conditions") or () if "type" in each}
    for kind, reason, message in wanted:
        made = {"type": kind, "status": "True", "reason": reason, "message": message}
        known.setdefault(kind, {**made, "lastTransitionTime": timestamp()})
    versions = list(before.get("storedVersions") or ())
    versions += [
        each["name"]
        for each in obj["spec"].get("versions") or ()
        if each["storage"] and each.get("name") and each["name"] not in versions
    ]
    accepted = obj["spec"]["names"]
    return {**before, "conditions": list(known.values()), "acceptedNames": accepted, "storedVersions": versions}


def _is_protected(group: str) -> bool:
    return any(group == each or group.endswith(f".{each}") for each in ("k8s.io", "kubernetes.io"))


def _names(spec: Object) -> Iterator[FieldError]:
    group, given = spec.get("group") or "", spec["names"]
    if not group:
        yield errors.required("spec.group")
    elif "." not in group:
        yield errors.invalid("spec.group", group, "should be a domain with at least one dot")
    yield from errors.violations("spec.group", group, names.dns_subdomain) if group else ()
    if spec.get("scope") not in {"Cluster", "Namespaced"}:
        yield errors.not_supported("spec.scope", spec.get("scope") or "", ("Cluster", "Namespaced"))
    for name in ("plural", "singular", "kind", "listKind"):
        value = given.get(name) or ""
        if not value:
            yield errors.required(f"spec.names.{name}")
        for said in names.dns_1035_label(value.lower() if "ind" in name else value) if value else ():
            yield errors.invalid(f"spec.names.{name}", value, said)
    if given.get("kind") and given["kind"] == given.get("listKind"):
        yield errors.invalid("spec.names.listKind", given["listKind"], "kind and listKind may not be the same")
    for name in ("shortNames", "categories"):
        for index, each in enumerate(given.get(name) or ()):
            yield from errors.violations(f"spec.names.{name}[{index}]", each, names.dns_1035_label)


def _versions(versions: list[Object]) -> Iterator[FieldError]:
    if len(versions) > MAX_VERSIONS:
        yield errors.too_many("spec.versions", len(versions), MAX_VERSIONS)
        return
    listed = [each.get("name") or "" for each in versions]
    if sum(each["storage"] for each in versions) != 1:
        yield errors.invalid("spec.versions", listed, "must have exactly one version marked as storage version")
    if len(set(listed)) != len(listed):
        yield errors.invalid("spec.versions", listed, "must contain unique version names")
    for index, each in enumerate(versions):
        path = f"spec.versions[{index}]"
        yield from errors.violations(f"{path}.name", each.get("name") or "", names.dns_1035_label)
        schema = (each.get("schema") or {}).get("openAPIV3Schema")
        if schema is None:
            yield errors.required(f"{path}.schema.openAPIV3Schema", "schemas are required")
        else:
            yield from schema_rules.validate(schema, f"{path}.schema.openAPIV3Schema")
        yield from _paths(each, path)


def _paths(version: Object, path: str) -> Iterator[FieldError]:
    scale = (version.get("subresources") or {}).get("scale")
    if scale is not None:
        for name in ("specReplicasPath", "statusReplicasPath"):
            if not scale.get(name):
                yield errors.required(f"{path}.subresources.scale.{name}")
        for name, value in scale.items():
            yield from _path(value, f"{path}.subresources.scale.{name}", simple=True)
    for index, each in enumerate(version.get("additionalPrinterColumns") or ()):
        place = f"{path}.additionalPrinterColumns[{index}]"
        if not each.get("name"):
            yield errors.required(f"{place}.name")
        if each.get("type") not in _COLUMN_TYPES:
            yield errors.not_supported(f"{place}.type", each.get("type") or "", _COLUMN_TYPES)
        yield from _path(each.get("jsonPath") or "", f"{place}.jsonPath")
    for index, each in enumerate(version.get("selectableFields") or ()):
        yield from _path(each.get("jsonPath") or "", f"{path}.selectableFields[{index}].jsonPath", simple=True)


def _path(value: str, place: str, *, simple: bool = False) -> Iterator[FieldError]:
    try:
        json_paths.fields(value) if simple else json_paths.parse(value)
    except ValueError as error:
        yield errors.invalid(place, value[:100], str(error))
