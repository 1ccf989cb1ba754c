"""The environment variables of a container, according to the API reference of Container and EnvVarSource."""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from harness.model.manifests import Object

_REFERENCE = re.compile(r"\$(?:\$|\((?P<name>[^()]*)\))")
_KEYED = re.compile(r"metadata\.(?P<what>labels|annotations)\['(?P<key>[^']*)'\]")


class ConfigError(ValueError):
    """The container cannot be created as specified."""


@dataclass(frozen=True, slots=True)
class FieldValues:
    """The values for `fieldRef`: a pod's fields, and the addresses that its status will have."""

    pod: Object
    pod_ips: Sequence[str]
    host_ips: Sequence[str]

    def of(self, path: str) -> str:
        """Return the value of a field. Raises `ConfigError` for an unsupported field."""
        if keyed := _KEYED.fullmatch(path):
            return str((self.pod["metadata"].get(keyed["what"]) or {}).get(keyed["key"], ""))
        meta, spec = self.pod["metadata"], self.pod["spec"]
        values = {
            "metadata.name": meta["name"],
            "metadata.namespace": meta["namespace"],
            "metadata.uid": meta["uid"],
            "spec.nodeName": spec["nodeName"],
            "spec.serviceAccountName": spec.get("serviceAccountName", "default"),
            "status.hostIP": ",".join(self.host_ips[:1]),
            "status.hostIPs": ",".join(self.host_ips),
            "status.podIP": ",".join(self.pod_ips[:1]),
            "status.podIPs": ",".join(self.pod_ips),
        }
        if path not in values:
            raise ConfigError(f"unsupported fieldPath: {path}")
        return str(values[path])


def expanded(text: str, variables: Mapping[str, str]) -> str:
    """Replace each `$(NAME)` with the variable's value, if the variable is defined, and `$$` with `$`."""
    return _REFERENCE.sub(
        lambda found: "$" if found["name"] is None else variables.get(found["name"], found[0]),
        text,
    )


def environment_of(container: Object, fields: FieldValues, given: Mapping[str, str]) -> dict[str, str]:
    """Return the variables of a container: those in its spec, and those in `given`. Raises `ConfigError`."""
    if container.get("envFrom"):
        raise ConfigError("envFrom is not supported in an embedded cluster")
    variables: dict[str, str] = {}
    for each in container.get("env") or ():
        source = each.get("valueFrom") or {}
        if "fieldRef" in source:
            variables[each["name"]] = fields.of(source["fieldRef"]["fieldPath"])
        elif source:
            raise ConfigError(f"{next(iter(source))} is not supported in an embedded cluster")
        else:
            variables[each["name"]] = expanded(each.get("value") or "", variables)
    return {**given, **variables}
