"""Parse key `kind` of a recipe: how to install a proxy on a kind cluster, and which workloads must become ready."""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Annotated, Any

from harness.api.client import Object
from harness.errors import UsageError
from harness.model.cluster_options import NO_CNI
from harness.recipes import values
from harness.recipes.objects import parse_objects
from harness.recipes.values import Command, FieldMark, Line, Seconds, Text, fill, fill_known, read

READY_SECONDS = 180.0
OF_OBJECTS: Mapping[str, str] = {
    "server": "the URL of the API server, as seen by nodes",
    "server_host": "the host in that URL; its port is 6443",
    "cluster_cidrs": "the CIDRs of all pods, separated by commas",
    "service_cidrs": "the CIDRs of cluster IPs, separated by commas",
    "mode": "the value of --mode",
}
OF_COMMAND: Mapping[str, str] = {
    **OF_OBJECTS,
    "kubeconfig": "the path of a kubeconfig for the API server",
    "cluster": "the name of the kind cluster",
}
"""The placeholders that `install` accepts. `objects` accepts only the placeholders in `OF_OBJECTS`."""

_WORKLOADS = {"daemonset": "DaemonSet", "deployment": "Deployment", "statefulset": "StatefulSet"}


@dataclass(frozen=True, slots=True)
class Workload:
    kind: str
    namespace: str
    name: str

    def __str__(self) -> str:
        return f"{self.kind} {self.namespace}/{self.name}"


@dataclass(frozen=True, slots=True)
class Installation:
    """The images, objects and command that install a proxy instead of kube-proxy. `cni` is the default of --cni."""

    objects: Annotated[tuple[Object, ...], FieldMark.READ] = ()
    install: Command = ()
    images: tuple[Line, ...] = ()
    ready: Annotated[tuple[Workload, ...], FieldMark.READ] = ()
    ready_seconds: Seconds = READY_SECONDS
    cni: Text = ""

    @property
    def daemon_sets(self) -> tuple[Workload, ...]:
        """Return the DaemonSets. Their pods, one on each node, are the proxies."""
        return tuple(each for each in self.ready if each.kind == "DaemonSet")

    def objects_with(self, known: Mapping[str, str]) -> tuple[Object, ...]:
        """Return the objects with placeholders filled in. Other text in braces is unchanged."""
        return tuple(_filled(each, known) for each in self.objects)

    def command_with(self, known: Mapping[str, str]) -> list[str]:
        return [fill(each, known) for each in self.install]


def parse_installation(given: Any, folder: Path) -> Installation:
    """Parse the value of key `kind`. File names are relative to `folder`. Raises `UsageError` with the key."""
    named: Installation = read(given, Installation, "kind", OF_COMMAND)
    if not given.get("objects") and not given.get("install"):
        raise UsageError("key kind: expected objects, install, or both, to install the proxy")
    objects = parse_objects(given.get("objects", []), folder, "kind.objects")
    ready = tuple(
        Workload(each["kind"], each["metadata"].get("namespace", "default"), each["metadata"]["name"])
        for each in objects
        if each["kind"] in _WORKLOADS.values()
    )
    ready = _ready(given["ready"]) if "ready" in given else ready
    if not ready:
        raise UsageError(
            "key kind.ready is missing: name the workloads to wait for, for example {daemonset: kube-system/mine}, "
            f"because kind.objects contains no {', '.join(_WORKLOADS.values())}"
        )
    archives = (
        _file(each, f"key kind.images[{n}]", folder) if each.endswith(".tar") else each
        for n, each in enumerate(named.images)
    )
    cni = named.cni if named.cni in ("", NO_CNI) else _file(named.cni, "key kind.cni", folder)
    return replace(named, objects=objects, ready=ready, images=tuple(archives), cni=cni)


def images_in(objects: tuple[Object, ...]) -> list[str]:
    found: dict[str, None] = {}
    for each in objects:
        spec = each.get("spec") or {}
        pod = spec if each["kind"] == "Pod" else ((spec.get("template") or {}).get("spec") or {})
        for container in (*(pod.get("initContainers") or ()), *(pod.get("containers") or ())):
            found[str(container.get("image", ""))] = None
    return [each for each in found if each]


def _ready(given: Any) -> tuple[Workload, ...]:
    if not isinstance(given, list) or not given:
        raise UsageError("key kind.ready: expected a list of workloads, for example [{daemonset: kube-system/mine}]")
    return tuple(_workload(each, f"kind.ready[{number}]") for number, each in enumerate(given))


def _workload(given: Any, where: str) -> Workload:
    kind, named = values.one_key(given, tuple(_WORKLOADS), where)
    namespace, _, name = named.partition("/") if isinstance(named, str) else ("", "", "")
    if not namespace or not name or "/" in name:
        raise UsageError(f"key {where}.{kind}: expected NAMESPACE/NAME, not {values.shown(named)}")
    return Workload(_WORKLOADS[kind], namespace, name)


def _file(said: str, key: str, folder: Path) -> str:
    if not (folder / said).is_file():
        raise UsageError(f"{key}: there is no file {values.shown(str(folder / said))}")
    return str(folder / said)


def _filled(value: Any, known: Mapping[str, str]) -> Any:
    if isinstance(value, dict):
        return {key: _filled(each, known) for key, each in value.items()}
    if isinstance(value, list):
        return [_filled(each, known) for each in value]
    return fill_known(value, known) if isinstance(value, str) else value
