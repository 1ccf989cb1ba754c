"""Reports an unresponsive node as the node lifecycle controller does, but without its grace period of 40 s."""

from harness.api.client import Api, Object
from harness.model.manifests import has_condition


class ReportedNode:
    """A kubelet's reports: the conditions of its node, and the namespace and name of each ready pod."""

    def __init__(self, api: Api, name: str) -> None:
        self._api, self._name = api, name
        self._conditions: list[Object] = api.get("nodes", "", name)["status"]["conditions"]
        self._pods = ready_pods_on(api, name)

    def report_silence(self) -> None:
        unknown = {"status": "Unknown", "reason": "NodeStatusUnknown"}
        self._report_node([{**each, **unknown} for each in self._conditions])
        for namespace, pod in self._pods:
            self._report_pod(namespace, pod, ready=False)

    def report_again(self) -> None:
        self._report_node(self._conditions)
        there = {_key(each) for each in self._api.list("pods")}
        for namespace, pod in self._pods:
            if (namespace, pod) in there:
                self._report_pod(namespace, pod, ready=True)

    def _report_node(self, conditions: list[Object]) -> None:
        self._api.patch("nodes", "", self._name, {"status": {"conditions": conditions}}, subresource="status")

    def _report_pod(self, namespace: str, name: str, *, ready: bool) -> None:
        """Set only the condition Ready, because an unresponsive kubelet does not report that containers have ended."""
        conditions = self._api.get("pods", namespace, name)["status"]["conditions"]
        status = "True" if ready else "False"
        changed = [{**each, "status": status} if each["type"] == "Ready" else each for each in conditions]
        self._api.patch("pods", namespace, name, {"status": {"conditions": changed}}, subresource="status")


def ready_pods_on(api: Api, node: str, *, label_selector: str = "") -> list[tuple[str, str]]:
    listed = api.list("pods", label_selector=label_selector)
    return [_key(each) for each in listed if each["spec"].get("nodeName") == node and has_condition(each, "Ready")]


def _key(pod: Object) -> tuple[str, str]:
    return str(pod["metadata"]["namespace"]), str(pod["metadata"]["name"])
