"""Read the objects of a cluster from files: a recording, the output of kubectl, or the folder of a dump.

A source is a folder, a file, or "-" for standard input. It may contain JSON or YAML, in one or more documents: single
objects, and lists of one or more kinds. Folders are read with their subfolders, so the output of `kubectl cluster-info
dump` and must-gather trees can be read as they are. Logs, and objects that an explanation does not use, are ignored.
"""

import json
import sys
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import orjson
import yaml

from explain import objects
from explain.components import API_SERVER, CONTROLLER, PROXY, Gates, configured_gates
from explain.objects import Objects, about_pod, is_of, is_proxy
from explain.programs import CILIUM_CONFIG
from harness.api.client import Object
from harness.errors import UsageError
from harness.model import files
from reference.endpointslice.endpoints import is_ready
from reference.endpointslice.labels import ZONE

_MOST_BYTES = 4096 * files.MEGABYTE
_MOST_DEPTH = 60
_LOADER: Any = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
_KINDS = {"Ingress": "ingresses"} | {each: f"{each.lower()}s" for each in ("Service", "EndpointSlice", "Node", "Pod",
    "Event", "Lease", "ConfigMap", "Namespace", "Deployment", "StatefulSet", "ReplicaSet", "HorizontalPodAutoscaler",
    "PodDisruptionBudget",
)}  # fmt: skip
_SPECIAL = {"version.json", "gates.json"}
_READY, _NOT_READY = ({"conditions": [{"type": "Ready", "status": each}]} for each in ("True", "False"))
_OF_ENDPOINTS = ("phase", "podIP", "podIPs")
_LOG = b"==== START"  # of a container, in the output of `kubectl cluster-info dump`
_SUFFIXES = {".json", ".yaml", ".yml"}


def read(source: str) -> Objects:
    """Read the objects of a cluster. Raises `UsageError` if the source is missing, malformed, or has no Service."""
    folder, found = Path(source), defaultdict[str, list[Object]](list)
    stems = set()
    for place, text in _texts(source):
        stems.add(Path(place).stem)
        for each in _objects(text, place):
            kind = _KINDS.get(str(each.get("kind", "")))
            if kind:
                if kind not in {"nodes", "namespaces"}:
                    each["metadata"].setdefault("namespace", "default")
                found[kind].append(_small(each) if kind == "pods" else each)
    if not found["services"]:
        raise UsageError(f"--from {source}: it has no Service; add the output of `kubectl get services -A -o json`")
    missing = [each for each in (*objects.NEEDED, *objects.EVIDENCE) if not found[each] and each not in stems]
    unread = dict.fromkeys(missing, f"there are none in {source}")
    if not found["nodes"]:
        endpoints = [each for one in found["endpointslices"] for each in one.get("endpoints") or ()]
        zones = {str(each["nodeName"]): str(each.get("zone") or "") for each in endpoints if each.get("nodeName")}
        labels = {name: {ZONE: zone} if zone else {} for name, zone in zones.items()}
        found["nodes"] = [{"metadata": {"name": name, "labels": each}} for name, each in labels.items()]
        unread["nodes"] = f"there are none in {source}: only nodes with endpoints are known, and no release"
    specs = [each.get("spec") for each in found["services"]]
    if all(isinstance(spec, dict) and spec.get("type") == "ExternalName" for spec in specs):
        unread.pop("endpointslices", None)  # no controller writes any
    if "endpointslices" in unread:  # as in the output of `kubectl cluster-info dump`
        if lacking := [name for name in ("pods", "nodes") if name in unread]:
            none = f"no EndpointSlices, and no {' and no '.join(lacking)} to predict them from"
            raise UsageError(f"--from {source}: it has {none}")
        unread["endpointslices"] = f"there are none in {source}; they are predicted from the pods"
    pods = found["pods"]
    proxies = [each for each in pods if is_proxy(each)]
    configs = [each for each in found["configmaps"] if each["metadata"]["name"] == CILIUM_CONFIG]
    version, at = _version(folder / "version.json")
    kept: dict[str, Any] = {name: found[name] for name in (*objects.NEEDED, *objects.EVIDENCE)}
    control_plane = [each for each in pods if is_of(each, API_SERVER, CONTROLLER)]
    of_proxies = [each for each in found["configmaps"] if each["metadata"]["name"].startswith(PROXY)]
    gates = {**configured_gates([*proxies, *control_plane], of_proxies), **_gates(folder / "gates.json")}
    further = {name: found[name] for name in (*objects.FURTHER, "replicasets") if found[name]}
    roles: dict[str, Any] = {"proxies": proxies, "configs": configs, "control_plane": control_plane}
    return Objects(version, **kept, **roles, unread=unread, gates=gates, further=further, at=at)


def _texts(source: str) -> Iterator[tuple[str, bytes]]:
    """Yield the files of a source. Pods are first, so that the largest file is read while memory is free."""
    path = Path(source)
    if source == "-":
        yield "standard input", sys.stdin.buffer.read()
    elif path.is_dir():
        paths = [each for each in path.rglob("*") if each.suffix in _SUFFIXES and each.name not in _SPECIAL]
        for each in sorted(paths, key=lambda each: (each.stem != "pods", str(each))):
            yield str(each), files.content(each, what="objects", most=_MOST_BYTES)
    else:
        yield source, files.content(path, what="objects", most=_MOST_BYTES)


def _objects(text: bytes, place: str) -> Iterator[Object]:
    for document in _documents(text, place):
        if isinstance(document, dict) and "items" not in document:
            yield from [document] if _is_object(document) else ()
            continue
        items = document["items"] if isinstance(document, dict) else None
        if not isinstance(items, list) or not all(map(_is_object, items)):
            raise UsageError(f'{place}: expected a list of objects from `kubectl get … -o json`: {{"items": […]}}')
        of_list = str(document.get("kind") or "").removesuffix("List")  # or else the name of the file shows the kind
        kind = of_list or next((kind for kind, name in _KINDS.items() if name == Path(place).stem), "")
        yield from (each if each.get("kind") else {"kind": kind, **each} for each in items)


def _documents(text: bytes, place: str) -> Iterator[Any]:
    if text.lstrip()[:1] not in {b"{", b"["} and not text.startswith(_LOG):
        yield from _yaml_documents(text, place)
        return
    try:
        yield orjson.loads(text)
    except ValueError as error:
        several = [*_json_documents(text.decode(errors="replace"))]
        if not several:
            raise UsageError(f"{place}: {error}") from None
        yield from several


def _json_documents(text: str) -> Iterator[Any]:
    """Yield the JSON documents in a text. Skip the lines between them, which are logs in `cluster-info dump`."""
    decoder, begin = json.JSONDecoder(), 0
    while (begin := text.find("{", begin)) >= 0:
        if begin and text[begin - 1] != "\n":
            begin += 1
            continue
        try:
            document, begin = decoder.raw_decode(text, begin)
        except ValueError:
            begin += 1
        else:
            yield document


def _yaml_documents(text: bytes, place: str) -> Iterator[Any]:
    try:
        depth = 0
        for event in yaml.parse(text, Loader=_LOADER):  # the constructor is recursive, and expands aliases
            depth += isinstance(event, yaml.CollectionStartEvent) - isinstance(event, yaml.CollectionEndEvent)
            if depth > _MOST_DEPTH or isinstance(event, yaml.AliasEvent):
                raise UsageError(f"{place}: expected YAML without aliases and deep nesting, as kubectl writes it")
        yield from (each for each in yaml.load_all(text, Loader=_LOADER) if each is not None)
    except (yaml.YAMLError, UnicodeError) as error:
        raise UsageError(f"{place}: is neither JSON nor YAML: {' '.join(str(error).split())}") from None


def _is_object(each: object) -> bool:
    metadata = each.get("metadata") if isinstance(each, dict) else None
    return isinstance(metadata, dict) and isinstance(metadata.get("name"), str)


def _small(pod: Object) -> Object:
    """Return a pod reduced to the fields that are used. Pods of proxies and pods in kube-system stay unchanged."""
    if is_proxy(pod) or pod["metadata"].get("namespace") == objects.SYSTEM:
        return pod
    status, found = pod.get("status") or {}, about_pod(pod)
    found["status"] = _READY if is_ready(pod) else _NOT_READY  # one object for all pods
    if "podIP" in status:  # recordings have no addresses
        found["status"] = {**{key: status[key] for key in _OF_ENDPOINTS if key in status}, **found["status"]}
    return found


def _gates(path: Path) -> Gates:
    content = _loaded(path) if path.is_file() else {}
    gates = content.values() if isinstance(content, dict) else [None]
    if not all(isinstance(each, dict) and all(isinstance(one, bool) for one in each.values()) for each in gates):
        raise UsageError(f'{path}: expected feature gates like {{"kube-apiserver": {{"TopologyAwareHints": true}}}}')
    return dict(content)


def _loaded(path: Path) -> Any:
    try:
        return orjson.loads(files.content(path, what="objects", most=_MOST_BYTES))
    except ValueError as error:
        raise UsageError(f"{path}: {error}") from None


def _version(path: Path) -> tuple[str, str]:
    try:
        content: Any = _loaded(path) if path.is_file() else {"gitVersion": ""}
        return str((content.get("serverVersion") or content)["gitVersion"]), str(content.get("at") or "")
    except (AttributeError, KeyError, TypeError):
        raise UsageError(f"{path}: expected the output of `kubectl version -o json`") from None
