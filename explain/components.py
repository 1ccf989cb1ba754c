"""Read the components' feature gates from metrics or settings, and derive the control plane's oldest possible release.

Since Kubernetes 1.35 no relevant gate can be disabled. The metrics of kube-controller-manager and kube-proxy are read
through the pod proxy, which works only for pods that listen on the node's address and require no authorization.
"""

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from harness.api.client import Api, Object, path_of
from harness.errors import InconclusiveError
from harness.model.metrics import enabled_gates
from reference.endpointslice.labels import TOPOLOGY_AWARE_HINTS, TOPOLOGY_MODE, is_managed, service_name
from reference.features import GATES, OLDEST, Version
from reference.objects.endpoints import any_hints

API_SERVER, CONTROLLER, PROXY = "kube-apiserver", "kube-controller-manager", "kube-proxy"

_PERMANENT = 35  # since this minor version, no relevant gate can be disabled
_SECONDS = 5.0
_KNOWN = {*GATES, "AllAlpha"}

Gates = Mapping[str, Mapping[str, bool]]
"""The state of gates by component and name. "kube-proxy 1.34" represents every kube-proxy of this release."""

_Source = tuple[str, str, str]
"""A component, the path of its metrics ("" if there is none), and how to make them readable."""


@dataclass(frozen=True, slots=True)
class MinimumRelease:
    """The oldest release of a control plane that can have written a cluster's objects, and an object as evidence."""

    version: Version = OLDEST
    by: str = ""


def proof(services: Iterable[Object], slices: Iterable[Object]) -> MinimumRelease:
    """Return the oldest possible release according to a cluster's objects, if all feature gates have their defaults."""
    found, modes = [MinimumRelease()], {}
    for each in services:
        metadata, value = each["metadata"], (each.get("spec") or {}).get("trafficDistribution")
        name = (metadata.get("namespace", ""), metadata["name"])
        if value:
            minor = 34 if value in ("PreferSameZone", "PreferSameNode") else 31
            found.append(MinimumRelease((1, minor), f"Service {'/'.join(name)} has trafficDistribution {value}"))
        elif TOPOLOGY_MODE in (annotations := metadata.get("annotations") or {}):
            modes[name] = TOPOLOGY_AWARE_HINTS not in annotations
    for one in slices if any(modes.values()) else ():
        name = (one["metadata"].get("namespace", ""), service_name(one))
        if modes.get(name) and is_managed(one) and any_hints(one):
            found.append(MinimumRelease((1, 27), f"{TOPOLOGY_MODE} gave hints to Service {'/'.join(name)}"))
    return max(found, key=lambda each: each.version)


def read_gates(
    api: Api, version: str, proxies: Sequence[Object], managers: Sequence[Object]
) -> tuple[dict[str, Mapping[str, bool]], dict[str, str]]:
    """Return the gates by component, and for each component whose metrics cannot be read, what is needed to read them.

    `version` is that of the API server. `managers` are the pods of kube-controller-manager.
    """
    found: dict[str, Mapping[str, bool]] = {}
    unread: dict[str, str] = {}
    for component, path, would in _sources(version, proxies, managers):
        if gates := enabled_gates(_text(api, path)) if path else {}:
            found[component] = gates
        else:
            unread[f"feature gates of {component}"] = would
    return found, unread


def configured_gates(pods: Iterable[Object], configs: Iterable[Object]) -> Gates:
    """Return the gates in the settings of components. kube-proxy ignores its flag if it has a configuration file."""
    in_file = _gates_in(" ".join(text for each in configs for text in (each.get("data") or {}).values()))
    found: dict[str, list[Mapping[str, bool]]] = {}
    for pod in pods:
        for each in (pod.get("spec") or {}).get("containers") or ():
            component = next((one for one in (API_SERVER, CONTROLLER, PROXY) if one in str(each.get("image"))), "")
            words = " ".join(map(str, (*(each.get("command") or ()), *(each.get("args") or ()))))
            by_file = component == PROXY and ("--config" in words or not words)
            name = f"{PROXY} {_release(pod)}" if component == PROXY else component
            found.setdefault(name, []).append(in_file if by_file else _gates_in(words))
    agreed = {name: {*each[0].items()}.intersection(*(one.items() for one in each)) for name, each in found.items()}
    return {name: dict(gates) for name, gates in agreed.items() if name and gates}


def _gates_in(text: str) -> dict[str, bool]:
    pairs = re.findall(r'(\w+)"?\s*[:=]\s*(true|false)\b', text, re.IGNORECASE)
    return {name: value.lower() == "true" for name, value in pairs if name in _KNOWN}


def _sources(version: str, proxies: Sequence[Object], managers: Sequence[Object]) -> Iterator[_Source]:
    if _minor(version) < _PERMANENT:
        yield API_SERVER, "/metrics", "permission to get /metrics (nonResourceURLs) is needed"
    if _minor(version) <= _PERMANENT:  # the component may be one minor version older
        if managers:
            would = "--bind-address other than 127.0.0.1 and --authorization-always-allow-paths=/metrics"
            yield _of_pod(CONTROLLER, managers[0], "https:{}:10257", would)
        else:
            yield CONTROLLER, "", "it is not in a pod that can be queried: ask the control plane's operators"
    for release, pod in {_release(each): each for each in reversed(proxies)}.items():
        if release and _minor(release) < _PERMANENT:
            yield _of_pod(f"{PROXY} {release}", pod, "{}:10249", "metricsBindAddress other than 127.0.0.1")


def _of_pod(component: str, pod: Object, place: str, listens: str) -> _Source:
    name, namespace = str(pod["metadata"]["name"]), str(pod["metadata"]["namespace"])
    path = f"{path_of('pods', namespace, place.format(name), 'proxy')}/metrics"
    return component, path, f"permission to get pods/proxy in namespace {namespace}, and {listens}, are needed"


def _text(api: Api, path: str) -> str:
    try:
        return api.text(path, timeout=_SECONDS)
    except InconclusiveError:
        return ""


def _release(pod: Object) -> str:
    images = [str(each.get("image", "")) for each in (pod.get("spec") or {}).get("containers") or ()]
    found = re.search(r"kube-proxy[^:]*:v?(\d+\.\d+)", " ".join(images))
    return found[1] if found else ""


def _minor(version: str) -> int:
    found = re.match(r"v?1\.(\d+)", version)
    return int(found[1]) if found else 0
