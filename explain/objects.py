"""Read the objects of a cluster for an explanation, from the API or from files of `kubectl get -o json`.

Services, EndpointSlices and Nodes are required. All other objects are optional evidence. The output lists the
resources that the user may not read. Recorded files contain no Secrets, and only the necessary fields of pods.
"""

import contextlib
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC
from email.utils import parsedate_to_datetime
from pathlib import Path
from typing import Any

import orjson
import yaml

from explain.components import API_SERVER, CONTROLLER, PROXY, Gates, configured_gates, read_gates
from explain.programs import CILIUM_CONFIG, CILIUM_SETTINGS, settings
from harness.api.client import Api, Object, RefusedError
from harness.checks.service_proxies import SELECTORS, recognise
from harness.errors import UsageError

CALICO = "calico-node"  # the proxy in Calico's eBPF mode, which replaces kube-proxy
_CONTROL_PLANE = f"component in ({API_SERVER}, {CONTROLLER})"
SYSTEM = "kube-system"
_NAMES = "metadata.name metadata.namespace metadata.generation metadata.labels"
_ABOUT: dict[str, str] = yaml.safe_load(Path(__file__).with_name("recorded_fields.yaml").read_text(encoding="utf-8"))
_KEPT = {
    resource: {part: re.findall(rf"{part}\.(\w+)", f"{_NAMES} {fields}") for part in ("metadata", "spec", "status")}
    for resource, fields in _ABOUT.items()
}

_ANNOTATIONS = ("linkerd.io/inject", "kubernetes.io/ingress.class", "alb.ingress.kubernetes.io/target-type",
                "nginx.ingress.kubernetes.io/service-upstream", "argocd.argoproj.io/tracking-id")  # fmt: skip
NEEDED = ("services", "endpointslices", "nodes")
EVIDENCE = ("pods", "events", "leases")
FURTHER = ("namespaces", "ingresses", "deployments", "statefulsets", "horizontalpodautoscalers", "poddisruptionbudgets")
"""Resources that show which clients choose endpoints themselves, or what may remove all endpoints of a zone."""


@dataclass(frozen=True, slots=True)
class Objects:
    """The objects by resource. `version` is the gitVersion of the API server.

    `unread` maps each resource that was not read to the reason. `proxies` are pods of possible service proxies, and
    `configs` their ConfigMaps. `control_plane` are the pods of kube-controller-manager and kube-apiserver. `gates` are
    feature gates by component, according to metrics or settings. `further` has the objects of `FURTHER` by resource.
    `at` is the API server's time, like "2026-11-22T10:00:00Z". `supposed` are assumptions that were applied to the
    objects, and `emptied_by` is the assumption that left the Service without ready endpoints.
    """

    version: str
    services: Sequence[Object]
    endpointslices: Sequence[Object]
    nodes: Sequence[Object]
    pods: Sequence[Object] = ()
    proxies: Sequence[Object] = ()
    control_plane: Sequence[Object] = ()
    events: Sequence[Object] = ()
    leases: Sequence[Object] = ()
    configs: Sequence[Object] = ()
    unread: Mapping[str, str] = field(default_factory=dict)
    gates: Gates = field(default_factory=dict)
    further: Mapping[str, Sequence[Object]] = field(default_factory=dict)
    at: str = ""
    supposed: Sequence[str] = ()
    emptied_by: str = ""


def of_service(api: Api, namespace: str, name: str) -> Objects:
    """Read the objects of a Service. Raises `RefusedError`, `InconclusiveError`, or `UsageError` if it is missing."""
    try:
        service = api.get("services", namespace, name)
    except RefusedError as error:
        if error.response.code != 404:
            raise
        names = [str(each["metadata"]["name"]) for each in api.list("services", namespace)]
        there = ", ".join(names[:6]) or f"no Service in namespace {namespace}"
        said = f"{error.response.body.get('message', error)}; it has {there}"
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
    found: dict[str, Any] = {}
    unread: dict[str, str] = {}
    system = {"control_plane": (SYSTEM, _CONTROL_PLANE), "leases": (SYSTEM, "")}
    further = dict.fromkeys(FURTHER, wanted["events"])
    for name, (namespace, selector) in {**wanted, **system, **further}.items():
        resource = "pods" if name == "control_plane" else name
        try:
            found[name] = api.list(resource, namespace, label_selector=selector)
        except RefusedError as error:
            if name in FURTHER and error.response.code == 404:
                continue  # the API server does not serve it
            where = f"in namespace {namespace}" if namespace and name != "namespaces" else "in all namespaces"
            unread[name] = f"{error.response.code}; permission to list {resource} {where} is needed"
    answer = api.request("GET", "/version")
    version = str(answer.body.get("gitVersion", ""))
    if why := unread.pop("control_plane", ""):  # the pods of proxies are in the same namespace
        unread["proxies"] = why
    found["proxies"] = [] if why else _proxies(api, SYSTEM) or _proxies(api, "")
    control_plane, proxies = found.get("control_plane", ()), found["proxies"]
    gates, dark = read_gates(api, version, proxies, [each for each in control_plane if is_of(each, CONTROLLER)])
    of_proxies = list[Object]()
    with contextlib.suppress(RefusedError):
        of_proxies = [api.get("configmaps", SYSTEM, PROXY)] if any(map(is_kube_proxy, proxies)) else []
    gates = {**configured_gates([*proxies, *control_plane], of_proxies), **gates}
    with contextlib.suppress(RefusedError):
        labels = [each["metadata"].get("labels") or {} for each in found["proxies"]]
        cilium = any(each.get("k8s-app") == "cilium" for each in labels)
        found["configs"] = [api.get("configmaps", SYSTEM, CILIUM_CONFIG)] if cilium else ()
    nodes, at = api.list("nodes"), _moment(answer.date)
    others = {name: found.pop(name) for name in FURTHER if name in found}
    return Objects(version, services, slices, nodes, **found, unread=unread | dark, gates=gates, further=others, at=at)


def _proxies(api: Api, namespace: str) -> list[Object]:
    with contextlib.suppress(RefusedError):
        return [each for one in SELECTORS for each in api.list("pods", namespace, label_selector=one)]
    return []


def _moment(date: str) -> str:
    try:
        return parsedate_to_datetime(date).astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
    except ValueError:
        return ""


def write(objects: Objects, folder: Path) -> list[str]:
    """Write one file per resource into `folder`, in the format of `kubectl get -o json`. Return lines about the files.

    Raises `UsageError` if a file exists or cannot be written.
    """
    pods = [about_pod(each) for each in (*objects.pods, *objects.proxies, *objects.control_plane)]
    contents: dict[str, Sequence[Object]] = {name: getattr(objects, name) for name in (*NEEDED, *EVIDENCE)}
    contents["pods"] = [*{(each["metadata"]["namespace"], each["metadata"]["name"]): each for each in pods}.values()]
    known = [each.get("data") or {} for each in objects.configs]
    data = [{key: value for key, value in each.items() if key in CILIUM_SETTINGS} for each in known]
    configs = [{"metadata": {"name": CILIUM_CONFIG, "namespace": SYSTEM}, "data": each} for each in data]
    contents |= {"configmaps": configs} if configs else {}
    contents |= {name: [about(each, name) for each in items] for name, items in objects.further.items()}
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
            said.append(f"{name}.json, objects: {len(items)}{left_out}")
    except OSError as error:
        raise UsageError(f"--record {folder}: {error}") from None
    return said


def _write(path: Path, content: Object) -> None:
    with path.open("xb") as file:
        file.write(orjson.dumps(content, option=orjson.OPT_INDENT_2) + b"\n")


def about_pod(pod: Object) -> Object:
    """Return only the pod fields that an explanation uses, without unrelated annotations, arguments and variables."""
    kept = about(pod, "pods")
    containers = (pod.get("spec") or {}).get("containers") or ()
    kept_of = ("name", "image", "ports")
    spec = {"containers": [{key: each[key] for key in kept_of if key in each} | settings(each) for each in containers]}
    of_pod: Object = pod.get("spec") or {}
    claims = [each for each in of_pod.get("volumes") or () if "persistentVolumeClaim" in each]
    tolerations = [each for each in of_pod.get("tolerations") or () if "tolerationSeconds" not in each]
    spec |= {name: kept for name, kept in (("volumes", claims), ("tolerations", tolerations)) if kept}
    if running := sidecars(pod):
        of_sidecars = ("name", "ports", "restartPolicy")
        spec["initContainers"] = [{key: each[key] for key in of_sidecars if key in each} for each in running]
    return {"apiVersion": "v1", "kind": "Pod", **kept, "spec": {**kept.get("spec", {}), **spec}}


def sidecars(pod: Object) -> list[Object]:
    """Return the sidecars of a pod (init containers that keep running), which may have named target ports."""
    return [each for each in pod["spec"].get("initContainers") or () if each.get("restartPolicy") == "Always"]


def ports_of(pod: Object) -> set[str]:
    """Return the names of a pod's container ports, with their protocols."""
    return {
        f"{each['name']} {each.get('protocol') or 'TCP'}"
        for container in (*(pod["spec"].get("containers") or ()), *sidecars(pod))
        for each in container.get("ports") or ()
        if each.get("name")
    }


def offers(pod: Object, port: Object) -> bool:
    """Return whether a pod may be an endpoint of a port of a Service: it has the targetPort, if that is a name."""
    target = port.get("targetPort")
    return not isinstance(target, str) or f"{target} {port.get('protocol') or 'TCP'}" in ports_of(pod)


def about(obj: Object, resource: str) -> Object:
    kept: Object = {}
    for part, keys in _KEPT[resource].items():
        if held := {key: obj[part][key] for key in keys if key in (obj.get(part) or ())}:
            kept[part] = held
    annotations = obj["metadata"].get("annotations") or {}
    if used := {key: annotations[key] for key in _ANNOTATIONS if key in annotations}:
        kept["metadata"]["annotations"] = used
    return kept


def is_proxy(pod: Object) -> bool:
    metadata = pod["metadata"]
    found = recognise(metadata["name"], metadata.get("labels")) if "labels" in metadata else None
    of_agent = not any(word in metadata["name"] for word in ("operator", "envoy", "relay", "controller"))
    return found is not None and bool(found.when) and of_agent  # not, for example, an operator


def is_kube_proxy(pod: Object) -> bool:
    found = recognise(pod["metadata"]["name"], pod["metadata"].get("labels"))
    return found is not None and found.reads == "all"


def is_of(pod: Object, *components: str) -> bool:
    labels = pod["metadata"].get("labels") or {}
    return pod["metadata"].get("namespace") == SYSTEM and labels.get("component") in components


def kubelet_version(node: Object) -> str:
    """Return the version of a node's kubelet, like "v1.34.2", or "" if it is not reported."""
    return str(((node.get("status") or {}).get("nodeInfo") or {}).get("kubeletVersion", ""))
