"""IPAddresses: one for each cluster IP that is taken, named like the address."""

from __future__ import annotations

from reference.apiserver.kinds import addresses, columns, errors
from reference.apiserver.kinds.columns import Column
from reference.apiserver.kinds.errors import FieldError
from reference.apiserver.kinds.shapes import STRING, of_object
from reference.apiserver.kinds.strategy import Resource, Strategy
from reference.client import Object
from reference.features import Features

_PARENT = ("group", "resource", "namespace", "name")


class IPAddresses(Strategy):
    """networking.k8s.io/v1."""

    resource = Resource("networking.k8s.io", "v1", "IPAddress", "ipaddresses", "ipaddress", ("ip",), namespaced=False)
    shape = of_object(spec={"parentRef": dict.fromkeys(_PARENT, STRING)})

    def valid_name(self, name: str) -> list[str]:
        address = addresses.parse(name)
        if address is None:
            return ["must be a valid IP address, (e.g. 10.9.8.7 or 2001:db8::ffff)"]
        return [] if str(address) == name else [f'must be in canonical form ("{address}")']

    def validate(self, obj: Object, features: Features) -> list[FieldError]:
        found, path = super().validate(obj, features), "spec.parentRef"
        parent = (obj.get("spec") or {}).get("parentRef")
        if parent is None:
            return [*found, errors.required(path)]
        return found + [errors.required(f"{path}.{name}") for name in ("resource", "name") if not parent.get(name)]

    def table(self) -> list[Column]:
        return [columns.NAME, columns.text("ParentRef", "What holds the address.", _parent), columns.AGE]


def _parent(obj: Object) -> str:
    parent = obj.get("spec", {}).get("parentRef") or {}
    group_resource = ".".join(each for each in (parent.get("resource"), parent.get("group")) if each)
    return "/".join(each for each in (group_resource, parent.get("namespace"), parent.get("name")) if each)
