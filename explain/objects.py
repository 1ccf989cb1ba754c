"""Read the objects of a cluster for an explanation, from the API or from files of `kubectl get -o json`.

Services, EndpointSlices and Nodes are required. All other objects are evidence. Without permission to read them, they
are omitted, and the output names the missing permission. Files contain no Secrets, and only the necessary fields of
pods.
"""

from __future__ import annotations

import contextlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC
from email.utils import parsedate_to_datetime
from pathlib import Path
from typing import Any

import orjson

from explain.components import Gates, read_gates
from harness.api.client import Api, Object, RefusedError
from harness.errors import UsageError
from harness.model import files

_PROXIES = "k8s-app=kube-proxy"
CALICO = "calico-node"  # the proxy in Calico's eBPF mode, which replaces kube-proxy
_MANAGERS = "component=kube-controller-manager"
_SYSTEM = "kube-system"
_ABOUT_PODS = {
    "metadata": ("name", "namespace", "labels", "ownerReferences", "deletionTimestamp"),
    "spec": ("nodeName",),
    "status": ("conditions", "phase", "startTime"),
}
NEEDED = ("services", "endpointslices", "nodes")
EVIDENCE = ("pods", "events", "leases")
_MOST_BYTES = 4096 * files.MEGABYTE


@dataclass(frozen=True, slots=True)
class Objects:
    """The objects by resource. `version` is the gitVersion of the API server.

    `unread` maps each resource that was not read to the reason. `proxies` are the pods of kube-proxy, or if there are
    none, of Calico. `managers` are the pods of kube-controller-manager. `gates` are feature gates by component,
    according to metrics. `at` is the API server's time, like "2026-11-22T10:00:00Z".
    """

    version: str
    services: Sequence[Object]
    endpointslices: Sequence[Object]
    nodes: Sequence[Object]
    pods: Sequence[Object] = ()
    proxies: Sequence[Object] = ()
    managers: Sequence[Object] = ()
    events: Sequence[Object] = ()
    leases: Sequence[Object] = ()
    unread: Mapping[str, str] = field(default_factory=dict)
    gates: Gates = field(default_factory=dict)
    at: str = ""


def of_service(api: Api, namespace: str, name: str) -> Objects:
    """Read the objects of one Service. Raises `UsageError` if it is missing, `RefusedError`, `InconclusiveError`."""
    try:
        service = api.get("services", namespace, name)
    except RefusedError as error:
        if error.response.code != 404:
            raise
        said = f"{error.response.body.get('message', error)}; it has {_some(api, namespace)}"
        raise UsageError(f"Service {namespace}/{name}: {said}") from None
    slices = api.list("endpointslices", namespace, label_selector=f"kubernetes.io/service-name={name}")
    selector = ",".join(f"{key}={value}" for key, value in sorted((service["spec"].get("selector") or {}).items()))
    wanted = {"pods": (namespace, selector)} if selector else {}
    return _with_evidence(api, [service], slices, {**wanted, "events": (namespace, "")})


def of_all(api: Api, namespace: str = "") -> Objects:
    """Read all Services of one namespace or of all namespaces. Raises `RefusedError` and `InconclusiveError`."""
    services, slices = api.list("services", namespace), api.list("endpointslices", namespace)
    return _with_evidence(api, services, slices, dict.fromkeys(("pods", "events"), (namespace, "")))


def _with_evidence(
    api: Api, services: Sequence[Object], slices: Sequence[Object], wanted: Mapping[str, tuple[str, str]]
) -> Objects:
    found: dict[str, Sequence[Object]] = {}
    unread: dict[str, str] = {}
    system = {"proxies": (_SYSTEM, _PROXIES), "managers": (_SYSTEM, _MANAGERS), "leases": (_SYSTEM, "")}
    for name, (namespace, selector) in {**wanted, **system}.items():
        resource = "pods" if name in {"proxies", "managers"} else name
        try:
            found[name] = api.list(resource, namespace, label_selector=selector)
        except RefusedError as error:
            where = f"in namespace {namespace}" if namespace else "in all namespaces"
            unread[name] = f"{error.response.code}; permission to list {resource} {where} is needed"
    answer = api.request("GET", "/version")
    version = str(answer.body.get("gitVersion", ""))
    if not found.get("proxies") and "proxies" not in unread:
        with contextlib.suppress(RefusedError):
            found["proxies"] = api.list("pods", label_selector=f"k8s-app={CALICO}")
    unread.pop("managers", None)  # the same as for kube-proxy's pods, which are in the same namespace
    gates, dark = read_gates(api, version, found.get("proxies", ()), found.get("managers", ()))
    nodes, at = api.list("nodes"), _moment(answer.date)
    return Objects(version, services, slices, nodes, **found, unread=unread | dark, gates=gates, at=at)


def _moment(date: str) -> str:
    """Convert the time in an HTTP header to the API's format. Return "" if the header is missing."""
    try:
        return parsedate_to_datetime(date).astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
    except ValueError:
        return ""


def _some(api: Api, namespace: str) -> str:
    names = [str(each["metadata"]["name"]) for each in api.list("services", namespace)]
    return ", ".join(names[:6]) or f"no Service in namespace {namespace}"


# Files


def write(objects: Objects, folder: Path) -> list[str]:
    """Write one file per resource into `folder`, in the format of `kubectl get -o json`. Return their descriptions.

    Raises `UsageError` if a file exists or cannot be written.
    """
    about = [_about(each) for each in (*objects.pods, *objects.proxies, *objects.managers)]
    contents = {
        "services": objects.services,
        "endpointslices": objects.endpointslices,
        "nodes": objects.nodes,
        "pods": list({(each["metadata"]["namespace"], each["metadata"]["name"]): each for each in about}.values()),
        "events": objects.events,
        "leases": objects.leases,
    }
    said = []
    try:
        folder.mkdir(parents=True, exist_ok=True)
        _write(folder / "version.json", {"serverVersion": {"gitVersion": objects.version}, "at": objects.at})
        if objects.gates:
            _write(folder / "gates.json", {name: dict(gates) for name, gates in objects.gates.items()})
            said.append(f"gates.json, the feature gates of {', '.join(objects.gates)}")
        for name, items in contents.items():
            if name in objects.unread:
                said.append(f"{name}: missing ({objects.unread[name]})")
                continue
            _write(folder / f"{name}.json", {"apiVersion": "v1", "kind": "List", "items": list(items)})
            left_out = " (only names, labels, nodes and conditions)" if name == "pods" else ""
            said.append(f"{name}.json, {len(items)} objects{left_out}")
    except OSError as error:
        raise UsageError(f"--record {folder}: {error}") from None
    return said


def _write(path: Path, content: Object) -> None:
    with path.open("xb") as file:
        file.write(orjson.dumps(content, option=orjson.OPT_INDENT_2) + b"\n")


def _about(pod: Object) -> Object:
    """Return only the pod fields that an explanation uses, without environment, arguments or annotations."""
    kept = {
        part: {key: pod[part][key] for key in keys if key in (pod.get(part) or {})}
        for part, keys in _ABOUT_PODS.items()
    }
    images = [
        {"name": each.get("name", ""), "image": each.get("image", "")} for each in pod["spec"].get("containers") or ()
    ]
    return {"apiVersion": "v1", "kind": "Pod", **kept, "spec": {**kept["spec"], "containers": images}}


def read(folder: Path) -> Objects:
    """Read the files of a folder: services.json and so on, in the format of `kubectl get … -o json`.

    Raises `UsageError` if a file is missing or does not contain a list of these objects.
    """
    found: dict[str, list[Object]] = {}
    unread: dict[str, str] = {}
    for name in (*EVIDENCE, *NEEDED):  # pods first, so that the largest file is parsed while memory is free
        path = folder / f"{name}.json"
        if path.is_file():
            found[name] = [*map(_without_status, _items(path))] if name == "pods" else _items(path)
        elif name in NEEDED:
            raise UsageError(f"--from {folder}: {name}.json is missing; create it with `kubectl get {name} -A -o json`")
        else:
            unread[name] = f"there is no {name}.json"
    pods = found.get("pods", ())
    proxies = [each for each in pods if _is_proxy(each)] or [each for each in pods if _app(each) == CALICO]
    version, at = _version(folder / "version.json", found["nodes"])
    gates = _gates(folder / "gates.json")
    managers = [each for each in pods if _is_manager(each)]
    return Objects(version, **found, proxies=proxies, managers=managers, unread=unread, gates=gates, at=at)


def _gates(path: Path) -> Gates:
    """Return the gates from the gates file, if the file exists."""
    content = _loaded(path) if path.is_file() else {}
    gates = content.values() if isinstance(content, dict) else [None]
    if not all(isinstance(each, dict) and all(isinstance(one, bool) for one in each.values()) for each in gates):
        raise UsageError(
            f'{path}: expected gates by component, like {{"kube-apiserver": {{"TopologyAwareHints": true}}}}'
        )
    return dict(content)


def _without_status(pod: Object) -> Object:
    """Return a pod without the fields that only pods of components need. Components are in kube-system."""
    if _app(pod) == CALICO or pod["metadata"].get("namespace") == _SYSTEM:
        return pod
    kept = {key: value for key, value in pod["metadata"].items() if key in _ABOUT_PODS["metadata"]}
    return {"metadata": kept, "spec": {"containers": (pod.get("spec") or {}).get("containers") or ()}}


def _items(path: Path) -> list[Object]:
    content = _loaded(path)
    items = content.get("items") if isinstance(content, dict) else None
    if not isinstance(items, list) or not all(_is_object(each) for each in items):
        raise UsageError(f'{path}: expected a list of objects from `kubectl get … -o json`: {{"items": […]}}')
    return items


def _loaded(path: Path) -> Any:
    try:
        return orjson.loads(files.content(path, what="objects", most=_MOST_BYTES))
    except ValueError as error:
        raise UsageError(f"{path}: {error}") from None


def _is_object(each: object) -> bool:
    metadata = each.get("metadata") if isinstance(each, dict) else None
    return isinstance(metadata, dict) and isinstance(metadata.get("name"), str)


def _is_proxy(pod: Object) -> bool:
    return pod["metadata"].get("namespace") == _SYSTEM and _app(pod) == "kube-proxy"


def _is_manager(pod: Object) -> bool:
    labels = pod["metadata"].get("labels") or {}
    return pod["metadata"].get("namespace") == _SYSTEM and labels.get("component") == "kube-controller-manager"


def _app(pod: Object) -> str:
    return str((pod["metadata"].get("labels") or {}).get("k8s-app", ""))


def _version(path: Path, nodes: Sequence[Object]) -> tuple[str, str]:
    """Return the API server's version, and its time if known. Without the file, return the newest kubelet version."""
    if path.is_file():
        try:
            content = _loaded(path)
            return str((content.get("serverVersion") or content)["gitVersion"]), str(content.get("at") or "")
        except (AttributeError, KeyError, TypeError):
            raise UsageError(f"{path}: expected the output of `kubectl version -o json`") from None
    return max((kubelet_version(each) for each in nodes), default="", key=_in_order), ""


def kubelet_version(node: Object) -> str:
    """Return the version of a node's kubelet, like "v1.34.2", or "" if it is not reported."""
    return str(((node.get("status") or {}).get("nodeInfo") or {}).get("kubeletVersion", ""))


def _in_order(version: str) -> list[int]:
    return [int(part) if part.isdigit() else 0 for part in version.lstrip("v").split(".")]
