"""Validation of `metadata`, shared by all kinds."""

from collections.abc import Mapping
from typing import Any

from reference.apiserver.kinds import errors, names
from reference.apiserver.kinds.errors import FieldError
from reference.client import Object

MAX_ANNOTATION_BYTES = 256 * 1024


def validate(obj: Object, *, namespaced: bool, valid_name: names.Rule) -> list[FieldError]:
    meta = obj["metadata"]
    found = _validate_names(meta, valid_name)
    found += _validate_namespace(meta, namespaced=namespaced)
    found += validate_labels(meta.get("labels") or {}, "metadata.labels")
    found += _validate_annotations(meta.get("annotations") or {})
    found += _validate_finalizers(meta.get("finalizers") or [])
    return found + _validate_owners(meta.get("ownerReferences") or [])


def validate_update(new: Object, old: Object) -> list[FieldError]:
    was, now = old["metadata"], new["metadata"]
    return [
        errors.invalid(f"metadata.{name}", now.get(name), "field is immutable")
        for name in ("name", "namespace", "uid", "creationTimestamp")
        if (now.get(name) or None) != (was.get(name) or None)
    ]


def validate_labels(labels: Mapping[str, str], path: str) -> list[FieldError]:
    found: list[FieldError] = []
    for key, value in labels.items():
        found += [errors.invalid(path, key, each) for each in names.qualified_name(key)]
        found += [errors.invalid(path, value, each) for each in names.label_value(value)]
    return found


def _validate_names(meta: Mapping[str, Any], valid_name: names.Rule) -> list[FieldError]:
    found: list[FieldError] = []
    prefix, name = meta.get("generateName") or "", meta.get("name") or ""
    if prefix:  # a trailing dash is what people write, and random characters follow it
        probe = prefix[:-1] + "a" if prefix.endswith("-") and len(prefix) > 1 else prefix
        found += [errors.invalid("metadata.generateName", prefix, each) for each in valid_name(probe)]
    if not name:
        found.append(errors.required("metadata.name", "name or generateName is required"))
    else:
        found += [errors.invalid("metadata.name", name, each) for each in valid_name(name)]
    return found


def _validate_namespace(meta: Mapping[str, Any], *, namespaced: bool) -> list[FieldError]:
    path, namespace = "metadata.namespace", meta.get("namespace") or ""
    if not namespaced:
        return [errors.forbidden(path, "not allowed on this type")] if namespace else []
    if not namespace:
        return [errors.required(path)]
    return [errors.invalid(path, namespace, each) for each in names.dns_label(namespace)]


def _validate_annotations(annotations: Mapping[str, str]) -> list[FieldError]:
    path = "metadata.annotations"
    found = [errors.invalid(path, key, each) for key in annotations for each in names.qualified_name(key.lower())]
    if sum(len(key.encode()) + len(value.encode()) for key, value in annotations.items()) > MAX_ANNOTATION_BYTES:
        found.append(errors.too_long(path, MAX_ANNOTATION_BYTES))
    return found


def _validate_finalizers(finalizers: list[str]) -> list[FieldError]:
    path = "metadata.finalizers"
    return [errors.invalid(path, each, said) for each in finalizers for said in names.qualified_name(each)]


def _validate_owners(owners: list[Mapping[str, Any]]) -> list[FieldError]:
    found: list[FieldError] = []
    for index, owner in enumerate(owners):
        path = f"metadata.ownerReferences[{index}]"
        found += [
            errors.invalid(f"{path}.{name}", owner.get(name) or "", "must not be empty")
            for name in ("apiVersion", "kind", "name", "uid")
            if not owner.get(name)
        ]
    controllers = [owner.get("name") or "" for owner in owners if owner.get("controller")]
    if len(controllers) > 1:
        said = 'Only one reference can have Controller set to true. Found "true" in references for {} and {}'
        found.append(errors.invalid("metadata.ownerReferences", owners, said.format(*controllers)))
    return found
