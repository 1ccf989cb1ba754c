"""Benign API servers: different wording, numbers, orders and names, and additions to objects.

Clients must rely only on reasons and codes. A resourceVersion is opaque, lists and objects are unordered, and admission
may add fields to every object that is written.
"""

from __future__ import annotations

import random
import uuid
from dataclasses import replace
from functools import partial
from typing import Any

from mutants.mutant import Mutant
from reference.apiserver import ApiServer
from reference.apiserver.kinds import FieldError, Strategy
from reference.apiserver.kinds.endpointslices import EndpointSlices
from reference.apiserver.kinds.nodes import Nodes
from reference.apiserver.kinds.pods import Pods
from reference.apiserver.kinds.services import Services
from reference.apiserver.store import Store, StoredObject
from reference.client import Object
from reference.features import Features

PAGE = 500
"""The page size of Kubernetes clients."""

ADDED = "admission.example.com/seen"


# Rejections


def _reworded(errors: list[FieldError]) -> list[FieldError]:
    return [replace(each, detail="no, sorry") for each in errors]


class _RewordedServiceErrors(Services):
    def validate(self, obj: Object, features: Features) -> list[FieldError]:
        return _reworded(super().validate(obj, features))


class _RewordedSliceErrors(EndpointSlices):
    def validate(self, obj: Object, features: Features) -> list[FieldError]:
        return _reworded(super().validate(obj, features))


# Stored and returned objects


class _JumpingResourceVersions(Store):
    """Starts above JavaScript's largest safe integer, and increases by several hundreds."""

    _chance = random.Random()  # noqa: S311  steps, no secret

    def _stamp(self, obj: Object) -> StoredObject:
        self.revision += self._chance.randrange(1000) if self.revision else 1 << 53
        return super()._stamp(obj)


class _ReversedLists(Store):
    """Reverses lists that fit on one page. Longer lists keep their order because continue tokens depend on it."""

    def items(self, resource: str) -> list[StoredObject]:
        found = super().items(resource)
        return found[::-1] if len(found) < PAGE else found


class _ReversedFields(Store):
    def _stamp(self, obj: Object) -> StoredObject:
        return super()._stamp(_turned(obj))


def _turned(value: Any) -> Any:
    """Return a JSON value in which the fields of each object are in reverse order."""
    match value:
        case dict():
            return {name: _turned(each) for name, each in reversed(value.items())}
        case list():
            return [_turned(each) for each in value]
    return value


class _HexadecimalNames(Strategy):
    """Generates names that end in ten hexadecimal digits."""

    def decode(self, obj: Object, features: Features) -> list[str]:
        metadata = obj["metadata"]
        if metadata.get("generateName") and not metadata.get("name"):
            metadata["name"] = f"{metadata['generateName'][:50]}{uuid.uuid4().hex[:10]}"
        return super().decode(obj, features)


class _AnnotatingAdmission(Strategy):
    """Adds an annotation to every written object, and a warning to the response."""

    def default(self, obj: Object) -> None:
        super().default(obj)
        metadata = obj["metadata"]
        metadata["annotations"] = {**(metadata.get("annotations") or {}), ADDED: "true"}

    def warnings(self, obj: Object, features: Features = Features()) -> list[str]:  # noqa: B008  as the base has it
        return [*super().warnings(obj, features), f"{ADDED} was added"]


def _kinds(rules: type[Strategy]) -> tuple[Strategy, ...]:
    """Return rules with this change for Services, slices, pods and Nodes."""
    return tuple(type(each.__name__, (rules, each), {})() for each in (Services, EndpointSlices, Pods, Nodes))


def _storing(name: str, sentence: str, family: str, store: type[Store]) -> Mutant:
    return Mutant(name, sentence, family, api_server=partial(ApiServer, store=store))


BENIGN: list[Mutant] = [
    Mutant("other-words", "Error messages have different wording.", "each release of kube-apiserver",
           kinds=lambda: (_RewordedServiceErrors(), _RewordedSliceErrors())),
    _storing("versions-jump", "Each write increases the resourceVersion by several hundreds.",
             "kine, or an etcd that other clients also write to", _JumpingResourceVersions),
    _storing("lists-backwards", "Lists are in reverse order of names.", "kube-apiserver's watch cache before 1.31",
             _ReversedLists),
    _storing("fields-backwards", "The fields of objects come in reverse order.", "API servers not written in Go",
             _ReversedFields),
    Mutant("generates-other-names", "Generated names end in ten hexadecimal digits.", "servers other than Kubernetes'",
           kinds=partial(_kinds, _HexadecimalNames)),
    Mutant("admits-with-additions", "The API server adds annotations to written objects, and warnings to responses.",
           "mutating admission, GKE", kinds=partial(_kinds, _AnnotatingAdmission)),
]  # fmt: skip
