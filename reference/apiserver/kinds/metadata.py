"""Validation of `metadata`, shared by all kinds."""

from collections.abc import Iterator, Mapping
from typing import Any

from reference.apiserver.kinds import errors, names
from reference.apiserver.kinds.errors import FieldError
from reference.client import Object

MAX_ANNOTATION_BYTES = 256 * 1024


def validate(obj: Object, *, namespaced: bool, valid_name: names.Rule) -> list[FieldError]:
    meta = obj["metadata"]
    return [
        *_validate_names(meta, valid_name),
        *_validate_namespace(meta, namespaced=namespaced),
        *validate_labels(meta.get("labels") or {}, "metadata.labels"),
        *_validate_annotations(meta.get("annotations") or {}),
        *_validate_finalizers(meta.get("finalizers") or []),
        *_validate_owners(meta.get("ownerReferences") or []),
    ]


def validate_update(new: Object, old: Object) -> list[FieldError]:
    was, now = old["metadata"], new["metadata"]
    return [
        errors.invalid(f"metadata.{name}", now.get(name), "field is immutable")
        for name in ("name", "namespace", "uid", "creationTimestamp")
        if (now.get(name) or None) != (was.get(name) or None)
    ]


def validate_labels(labels: Mapping[str, str], path: str) -> Iterator[FieldError]:
    for key, value in labels.items():
        yield from errors.violations(path, key, names.qualified_name)
        yield from errors.violations(path, value, names.label_value)


def _validate_names(meta: Mapping[str, Any], valid_name: names.Rule) -> Iterator[FieldError]:
    prefix, name = meta.get("generateName") or "", meta.get("name") or ""
    if prefix:  # random characters follow, so a trailing dash is valid
        probe = prefix[:-1] + "a" if prefix.endswith("-") and len(prefix) > 1 else prefix
        yield from (errors.invalid("metadata.generateName", prefix, each) for each in valid_name(probe))
    if not name:
        yield errors.required("metadata.name", "name or generateName is required")
    else:
        yield from errors.violations("metadata.name", name, valid_name)


def _validate_namespace(meta: Mapping[str, Any], *, namespaced: bool) -> list[FieldError]:
    path, namespace = "metadata.namespace", meta.get("namespace") or ""
    if not namespaced:
        return [errors.forbidden(path, "not allowed on this type")] if namespace else []
    if not namespace:
        return [errors.required(path)]
    return errors.violations(path, namespace, names.dns_label)


def _validate_annotations(annotations: Mapping[str, str]) -> Iterator[FieldError]:
    path = "metadata.annotations"
    for key in annotations:
        yield from (errors.invalid(path, key, each) for each in names.qualified_name(key.lower()))
    if sum(len(key.encode()) + len(value.encode()) for key, value in annotations.items()) > MAX_ANNOTATION_BYTES:
        yield errors.too_long(path, MAX_ANNOTATION_BYTES)


def _validate_finalizers(finalizers: list[str]) -> Iterator[FieldError]:
    for each in finalizers:
        yield from errors.violations("metadata.finalizers", each, names.qualified_name)


def _validate_owners(owners: list[Mapping[str, Any]]) -> Iterator[FieldError]:
    for index, owner in enumerate(owners):
        for name in ("apiVersion", "kind", "name", "uid"):
            if not owner.get(name):
                path = f"metadata.ownerReferences[{index}].{name}"
                yield errors.invalid(path, owner.get(name) or "", "must not be empty")
    controllers = [owner.get("name") or "" for owner in owners if owner.get("controller")]
    if len(controllers) > 1:
        said = 'Only one reference can have Controller set to true. Found "true" in references for {} and {}'
        yield errors.invalid("metadata.ownerReferences", owners, said.format(*controllers))
