"""Reports why the pods of a workload are not ready, and detects crashes of proxies."""

from collections.abc import Iterator, Mapping, Sequence

from harness.api.client import Api, Object, log_of_pod
from harness.backends.any_cluster.node_evidence import ProxySelector
from harness.errors import InconclusiveError
from harness.guest import errors
from harness.model.manifests import has_condition
from harness.model.program_log import fault_in
from harness.recipes.installation import Workload

_PULL = "build or pull it on the machine of the container engine, and add it to key kind.images of the recipe"
_PLURAL = {"DaemonSet": "daemonsets", "Deployment": "deployments", "StatefulSet": "statefulsets"}
_LOG_BYTES = "1000000"
_UNKNOWN = "Unknown"  # containerd's reason for a container that was gone when containerd started
_LINES = "20"


def url_of(workload: Workload) -> str:
    return f"/apis/apps/v1/namespaces/{workload.namespace}/{_PLURAL[workload.kind]}/{workload.name}"


def selector_of(api: Api, workload: Workload) -> str:
    spec = api.request("GET", url_of(workload)).body.get("spec") or {}
    labels = (spec.get("selector") or {}).get("matchLabels") or {}
    return ",".join(f"{key}={value}" for key, value in sorted(labels.items()))


def is_serving(pod: Object) -> bool:
    return has_condition(pod, "Ready") and "deletionTimestamp" not in pod["metadata"]


def lacking(api: Api, workload: Workload) -> str:
    answer = api.request("GET", url_of(workload))
    if answer.code == 404:
        return "it does not exist"
    found = answer.body
    status = found.get("status") or {}
    if status.get("observedGeneration", 0) < found["metadata"].get("generation", 0):
        return "its controller has not processed it yet"
    of_nodes = workload.kind == "DaemonSet"
    wanted = status.get("desiredNumberScheduled", 0) if of_nodes else found["spec"].get("replicas", 1)
    updated, ready = ("updatedNumberScheduled", "numberReady") if of_nodes else ("updatedReplicas", "readyReplicas")
    if not wanted:
        return "it has no pod on any node"
    least = min(status.get(updated, 0), status.get(ready, 0))
    return f"{least} of {wanted} pods are ready" if least < wanted else ""


def trouble(api: Api, workload: Workload, nodes: Mapping[str, str]) -> tuple[str, dict[str, str]]:
    """Return why a workload is not ready, and a pod's log, keyed by file name. `nodes` maps nodes to display names."""
    summary = f"{workload}: {lacking(api, workload) or 'it was too slow'}"
    selector = selector_of(api, workload)
    pods = api.list("pods", workload.namespace, label_selector=selector) if selector else []
    waiting = [each for each in pods if not has_condition(each, "Ready")]
    if not waiting:
        return summary, {}
    pod = min(waiting, key=lambda each: (not errors.of_pod(each), str(each["metadata"]["name"])))
    name, node = str(pod["metadata"]["name"]), str((pod.get("spec") or {}).get("nodeName") or "no node yet")
    why = errors.of_pod(pod, pull=_PULL) or f"pod {workload.namespace}/{name}: it does not become ready"
    log = _log(api, pod)
    where = nodes.get(node, node)
    text = f"{summary}\non {where}: {why}" + (f"\n{fault_in(log)}" if log else "")
    return text, ({f"{workload.name}-{where}.log": log} if log else {})


def _log(api: Api, pod: Object) -> str:
    """Return the log of the first unhealthy container, or of the container's previous run if it is not running."""
    status = pod.get("status") or {}
    for each in (*(status.get("initContainerStatuses") or ()), *(status.get("containerStatuses") or ())):
        ended = ((each.get("state") or {}).get("terminated") or {}).get("exitCode")
        if each.get("ready") or ended == 0:
            continue
        names = str(pod["metadata"]["namespace"]), str(pod["metadata"]["name"])
        begun_again = each.get("restartCount", 0) > 0 and "running" not in (each.get("state") or {})
        query = {"container": each["name"], "limitBytes": _LOG_BYTES, **({"previous": "true"} if begun_again else {})}
        return log_of_pod(api, *names, **query)
    return ""


class ProxyCrashDetector:
    """Detects crashes of proxies, even if kubelets have already restarted them. A proxy that a scenario stops does not
    count: a replaced proxy has a new pod, and the kubelet of a node that was off does not know how the proxy ended.
    """

    def __init__(self, api: Api, places: Sequence[ProxySelector]) -> None:
        self._api = api
        self._places = places
        self._known: set[tuple[str, str]] = set()
        self.latest()

    def latest(self) -> str:
        """Return a text about a proxy that crashed since the last call, or "" if none did or the API server is down."""
        found = []
        try:
            for place in self._places:
                for pod in self._api.list("pods", place.namespace, label_selector=place.selector):
                    found += [self._crash_text(place, pod, each) for each in self._ended(pod)]
        except InconclusiveError:
            return ""
        return next(iter(found), "")

    def _ended(self, pod: Object) -> Iterator[Object]:
        """Yield the containers of a pod that have crashed since the last call or have not been restarted yet."""
        for each in (pod.get("status") or {}).get("containerStatuses") or ():
            end = _end(each)
            if not end or end.get("reason") == _UNKNOWN or "deletionTimestamp" in pod["metadata"]:
                continue
            which = str(end.get("containerID")), str(end.get("finishedAt"))
            runs = "running" in (each.get("state") or {})
            if not runs or which not in self._known:
                yield each
            self._known.add(which)

    def _crash_text(self, place: ProxySelector, pod: Object, container: Object) -> str:
        node, end = pod["spec"].get("nodeName"), _end(container)
        runs = "running" in (container.get("state") or {})
        query = {"container": container["name"], "tailLines": _LINES, **({"previous": "true"} if runs else {})}
        log = log_of_pod(self._api, place.namespace, str(pod["metadata"]["name"]), **query).strip()
        why = f" ({end['reason']})" if end.get("reason") not in (None, "Error", "Completed") else ""
        return (
            f"{place.name} on {node} exited with {end.get('exitCode', '?')}{why}; its log ends with:\n"
            f"{log or '(it wrote nothing)'}"
        )


def _end(container: Object) -> Object:
    for key in ("state", "lastState"):
        if found := (container.get(key) or {}).get("terminated"):
            return dict(found)
    return {}
