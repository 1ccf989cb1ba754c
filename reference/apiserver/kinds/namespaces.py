"""Namespaces."""

from typing import ClassVar

from reference.apiserver.kinds import columns, names
from reference.apiserver.kinds.shapes import ANY, CONDITION, OTHERS, STRING, of_object
from reference.apiserver.kinds.strategy import Resource, Strategy
from reference.client import Object
from reference.features import Features

NAME_LABEL = "kubernetes.io/metadata.name"


def _phase(namespace: Object) -> str:
    return str(namespace.get("status", {}).get("phase", ""))


class Namespaces(Strategy):
    """The strategy of Namespaces. Each Namespace has its name as a label, for selectors."""

    resource = Resource("", "v1", "Namespace", "namespaces", "namespace", ("ns",), namespaced=False, has_status=True)
    shape = of_object(
        spec={"finalizers": [STRING], OTHERS: ANY}, status={"phase": STRING, "conditions": [CONDITION], OTHERS: ANY}
    )
    selectable_fields: ClassVar = {"status.phase": _phase}
    table = (columns.NAME, columns.text("Status", "Active or Terminating.", _phase), columns.AGE)

    def valid_name(self, name: str) -> list[str]:
        return names.dns_label(name)

    def default(self, obj: Object) -> None:
        name = obj["metadata"].get("name")
        if name:
            obj["metadata"].setdefault("labels", {})[NAME_LABEL] = name

    def prepare_for_create(self, obj: Object, features: Features) -> None:
        obj["status"] = {"phase": "Active"}
        obj.setdefault("spec", {})["finalizers"] = ["kubernetes"]

    def prepare_for_update(self, new: Object, old: Object, features: Features) -> None:
        super().prepare_for_update(new, old, features)
        new.setdefault("spec", {})["finalizers"] = old.get("spec", {}).get("finalizers", [])
