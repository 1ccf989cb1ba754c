"""The reference proxy on every node, in this process.

One of the two adapters that know the reference: it needs a control plane in the same process, whose store it watches.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from harness.netns.namespace import Namespace
from reference.client import Client
from reference.features import Features
from reference.proxy import ServiceProxy


class ReferenceProxy:
    """Runs one `ServiceProxy` a node, each with sockets of that node's netns."""

    name = "reference"
    mode = "nftables"

    def __init__(
        self,
        client: Client,
        *,
        pod_cidrs: Sequence[str],
        features: Features | None = None,
        proxy: Callable[..., ServiceProxy] = ServiceProxy,
    ) -> None:
        self._client = client
        self._pod_cidrs = pod_cidrs
        self._features = features or Features()
        self._make = proxy
        self._running: dict[str, ServiceProxy] = {}

    def setup(self, node: str, namespace: Namespace) -> None:
        """Start the proxy of a node."""
        with namespace.entered():
            proxy = self._make(node, self._client, pod_cidrs=self._pod_cidrs, features=self._features)
        proxy.start()
        self._running[node] = proxy

    def teardown(self, node: str) -> None:
        """Stop the proxy of a node and take its rules away."""
        proxy = self._running.pop(node)
        proxy.cleanup()
        proxy.stop()

    def close(self) -> None:
        """Stop all proxies; their rules end with the nodes."""
        while self._running:
            self._running.popitem()[1].stop()

    def synced(self) -> bool:
        """Whether the kernel of every node holds what was written so far."""
        return all(proxy.synced() for proxy in self._running.values())

    def explain(self, node: str, namespace: str, service: str) -> str:
        """Why a node does what it does with a Service."""
        return self._running[node].explain(namespace, service)

    def evidence(self, node: str) -> dict[str, str]:
        """The rules of a node and why they are so."""
        proxy = self._running[node]
        reasons = "\n".join(str(each) for each in proxy.decisions())
        return {f"rules-{node}.nft": proxy.ruleset_text(), f"decisions-{node}.txt": reasons}
