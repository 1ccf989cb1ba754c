"""Runs the reference proxy of every node in this process."""

import shutil
import threading
from collections.abc import Callable, Sequence

from harness.control_planes.control_plane import ControlPlane
from harness.control_planes.embedded import EmbeddedControlPlane, features_of
from harness.errors import EndedError
from harness.model.release import PROXY, Release
from harness.netns.namespace import Namespace
from harness.netns.process import search_path
from harness.proxies.proxy import rules_of
from reference.client.remote import RemoteClient
from reference.proxy import ServiceProxy
from reference.serving import HttpThread

_SERVICES = 50  # number of Services whose decisions are in the evidence


class ReferenceProxy:
    name = "reference"
    version = ""
    mode = "nftables"

    def __init__(
        self, plane: ControlPlane, *, pod_cidrs: Sequence[str], proxy: Callable[..., ServiceProxy] = ServiceProxy
    ) -> None:
        self._remote = None if isinstance(plane, EmbeddedControlPlane) else RemoteClient(plane.kubeconfig())
        self._client = plane.client(PROXY) if isinstance(plane, EmbeddedControlPlane) else self._remote
        self._pod_cidrs = pod_cidrs
        self._make = proxy
        self._running: dict[str, ServiceProxy] = {}
        self._namespaces: dict[str, Namespace] = {}
        self._serving = HttpThread()  # one thread serves the requests to all nodes
        self._serving.start()

    def setup(self, node: str, namespace: Namespace, release: Release) -> None:
        """Start the proxy of a node, or replace a running proxy. A new proxy takes over the existing rules."""
        self.stop(node)
        self._namespaces[node] = namespace
        with namespace.entered():
            proxy = self._make(
                node,
                self._client,
                pod_cidrs=self._pod_cidrs,
                features=features_of(release),
                acknowledge=True,
                serving=self._serving,
            )
        proxy.start()
        self._running[node] = proxy

    def stop(self, node: str) -> None:
        if node in self._running:
            self._running.pop(node).stop()

    def close(self) -> None:
        for node in list(self._running):
            self.stop(node)
        self._serving.stop()
        if self._remote is not None:
            self._remote.close()

    def synced(self) -> bool:
        """Return whether the kernel has the rules for all writes so far, on every node. Raises `EndedError`."""
        for node, proxy in self._running.items():
            if not proxy.running:
                raise EndedError(f"the proxy on {node} has ended: {proxy.last_error or 'the reason is unknown'}")
        told = self._remote is None or self._remote.caught_up()
        return told and all(proxy.synced() for proxy in self._running.values())

    def threads(self) -> tuple[threading.Thread, ...]:
        """Return the threads of servers and watches, and those of the proxies unless a mutant replaces them."""
        proxies = self._running.values() if self._make is ServiceProxy else ()
        watches = () if self._remote is None else self._remote.threads
        return (self._serving.thread, *watches, *(thread for proxy in proxies for thread in proxy.threads))

    def explain(self, node: str, namespace: str, service: str) -> str:
        proxy = self._running.get(node)
        return f"{node}: the proxy has stopped" if proxy is None else proxy.explain(namespace, service)

    def decisions(self, node: str) -> str:
        proxy = self._running.get(node)
        if proxy is None:
            return f"{node}: the proxy has stopped; its rules remain\n"
        names = list(dict.fromkeys(port.partition(":")[0] for port in proxy.decisions()))
        told = [proxy.explain(*name.split("/")) for name in names[:_SERVICES]]
        if len(names) > _SERVICES:
            told.append(f"and {len(names) - _SERVICES} more Services")
        return "\n\n".join(told or ["no Service is handled by this proxy"]) + "\n"

    def evidence(self, node: str) -> dict[str, str]:
        """Return a node's intended rules (unless its proxy is stopped), and the rules that the kernel lists."""
        proxy = self._running.get(node)
        can_list = shutil.which("nft", path=search_path())
        texts = rules_of(node, self._namespaces[node], self.mode) if can_list else {}
        if proxy is None:
            return texts
        wanted = (
            f"# As intended by the proxy. As listed by the kernel: {', '.join(texts) or 'not listed without nft'}\n"
        )
        texts[f"rules-{node}.nft"] = wanted + proxy.ruleset_text()
        return texts
