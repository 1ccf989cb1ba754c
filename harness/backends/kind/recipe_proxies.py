"""Stops and starts a recipe's proxies on single nodes: their DaemonSets exclude these nodes.

As with kubeadm's kube-proxy (`kube_proxies`), the affinity names nodes, so no object that proxies watch changes.
"""

from __future__ import annotations

from collections.abc import Sequence

from harness.api.client import MERGE_PATCH, Api, Object, RefusedError
from harness.backends.kind import kube_proxies as sets
from harness.backends.kind.workloads import is_serving, selector_of, url_of
from harness.errors import UnavailableError
from harness.eventually import eventually
from harness.recipes.installation import Workload

POD_SECONDS = 120.0
_LOOK = 0.25


class RecipeProxies:
    """The DaemonSets of a recipe. Node names are the API server's names."""

    def __init__(self, api: Api, name: str, workloads: Sequence[Workload]) -> None:
        self._api = api
        self._name = name
        self._workloads = workloads
        self._before: dict[Workload, Object] = {}
        self._without: set[str] = set()

    def start(self, nodes: Sequence[str]) -> None:
        """Replace the proxies of these nodes. Raises `UnavailableError` if they do not become ready."""
        self.stop(nodes)
        self._without -= set(nodes)
        self._apply()
        self._wait(nodes, there=True)

    def stop(self, nodes: Sequence[str]) -> None:
        """Stop the proxies of these nodes; rules in the kernel stay."""
        self._without |= set(nodes)
        self._apply()
        self._wait(nodes, there=False)

    def close(self) -> None:
        """Run the proxies on every node again, as they were installed. Idempotent."""
        if self._without:
            self.start(sorted(self._without))
        for workload, before in self._before.items():
            self._ask("PATCH", workload, sets.restoring(before))
        self._before.clear()

    def _apply(self) -> None:
        for each in self._workloads:
            if each not in self._before:
                self._before[each] = self._ask("GET", each)
            self._ask("PATCH", each, sets.excluding(self._before[each], sorted(self._without)))

    def _wait(self, nodes: Sequence[str], *, there: bool) -> None:
        """Wait until each DaemonSet has a ready pod on each of these nodes, or no pod on any of them."""
        selectors = {each: selector_of(self._api, each) for each in self._workloads}

        def done() -> bool:
            for workload, selector in selectors.items():
                pods = self._api.list("pods", workload.namespace, label_selector=selector)
                on = {each["spec"].get("nodeName"): each for each in pods}
                well = {node for node, each in on.items() if is_serving(each)}
                wrong = set(nodes) - well if there else set(nodes) & on.keys()
                if wrong:
                    how = "not ready" if there else "still"
                    raise AssertionError(f"{workload}: {how} on {', '.join(sorted(wrong))}")
            return True

        what = f"{self._name} {'on' if there else 'to be gone from'} {', '.join(nodes)}"
        eventually(done, within=POD_SECONDS, every=_LOOK, describe=what, error=UnavailableError)

    def _ask(self, method: str, workload: Workload, body: Object | None = None) -> Object:
        content = MERGE_PATCH if method == "PATCH" else "application/json"
        answer = self._api.request(method, url_of(workload), body, content_type=content)
        if answer.code >= 400:
            raise RefusedError(method, url_of(workload), answer)
        return answer.body
