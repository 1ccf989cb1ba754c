"""One pytest worker's part of a kind cluster. Its components can be replaced, and its nodes can be stopped."""

from collections.abc import Sequence

from harness.api.client import Api, Response
from harness.backends.any_cluster.dialing import Bypass
from harness.backends.any_cluster.node_evidence import KUBE_PROXY, ProxySelector
from harness.backends.any_cluster.pod_runner import LATE_SECONDS
from harness.backends.any_cluster.pods import ClientPod
from harness.backends.any_cluster.target import ClusterTarget
from harness.backends.containers.backend import ContainersBackend
from harness.backends.kind.components import KindComponents
from harness.backends.kind.proxy_pods import RELEASE_LABEL
from harness.backends.kind.workloads import ProxyCrashDetector
from harness.backends.kubeconfig import KubeconfigBackend
from harness.backends.netns_pods import ready_pods_on
from harness.backends.protocols import ComponentControl, ControllerMetrics, NodePower
from harness.errors import EndedError, InconclusiveError
from harness.eventually import eventually
from harness.guest import liveness
from harness.model.release import Component, Release

NOTICED = 180.0  # seconds for the control plane to report a stopped node as lost: 40 to 50, more if it is busy
BOOTED = 300.0  # seconds until a restarted node is ready

_OTHER_RELEASES = ProxySelector(KUBE_PROXY.name, KUBE_PROXY.namespace, RELEASE_LABEL)


class KindBackend(KubeconfigBackend, ComponentControl, NodePower, ControllerMetrics):
    _kubelet_patience = LATE_SECONDS
    _root = "`docker exec -it {node} bash`, or podman"

    def __init__(
        self,
        target: ClusterTarget,
        plain_api: Api,
        *,
        components: KindComponents,
        worker: str = "main",
        release: Release | None = None,
    ) -> None:
        """`close` also closes `components`. `KubeconfigBackend` documents the other arguments."""
        super().__init__(target, plain_api, worker=worker, release=release)
        self._components = components
        self._without_controller = False
        self._proxy_exits: ProxyCrashDetector | None = None

    def settle(self) -> float:
        """See `Backend.settle`. Also raises `EndedError` if a proxy has crashed, even if it has been restarted."""
        if self._proxy_exits is None:
            self._proxy_exits = ProxyCrashDetector(self.api, (*self._target.proxies, _OTHER_RELEASES))
        try:
            seconds = super().settle()
        except EndedError:
            raise
        except InconclusiveError as error:
            self._expect_running(error)
            raise
        self._expect_running()
        return seconds

    def check_instruments(self) -> None:
        super().check_instruments()
        self._expect_running()

    def _expect_running(self, because: Exception | None = None) -> None:
        if self._proxy_exits and (crash := self._proxy_exits.latest()):
            self._barrier.expect_news()  # a restarted proxy lists again
            raise EndedError(crash, Component.PROXY) from because

    def close(self) -> None:
        try:
            self._components.close()
        finally:
            super().close()

    def start_component(self, component: Component, release: Release, nodes: Sequence[str]) -> None:
        """Replace a component. Later steps wait until proxies and kubelets reconnect. Raises `UnavailableError`."""
        self._components.start(component, release, nodes)
        if component is Component.PROXY:
            self._without_proxy.difference_update(nodes)
        elif component is Component.CONTROLLER:
            self._without_controller = False
        if component is not Component.PROXY and not self._without_controller:
            self._barrier.hear_from_controller(self._clients.barrier_endpoints(without=self._off)[0][0])
        self._barrier.expect_news()
        self._has_replaced = True
        if component is Component.PROXY:
            self.settle()

    def stop_component(self, component: Component, nodes: Sequence[str]) -> None:
        self._components.stop(component, nodes)
        if component is Component.PROXY:
            self._without_proxy.update(nodes)
        elif component is Component.CONTROLLER:
            self._without_controller = True

    def controller_metrics(self) -> str:
        return self._components.controller_metrics()

    def stop_node(self, name: str) -> None:
        self._off[name] = self._ready_pods_on(name)
        self._components.stop_node(name)
        eventually(
            lambda: liveness.not_ready(self.api, [name]) and not self._ready_pods_on(name),
            within=NOTICED,
            every=0.5,
            describe=f"the control plane to notice that node {name} is off",
            error=InconclusiveError,
        )
        self.settle()

    def start_node(self, name: str) -> None:
        """Switch a node on again. Its pods restart and keep their names. Raises `InconclusiveError`."""
        self._components.start_node(name)
        eventually(
            lambda: not liveness.not_ready(self.api, [name]),
            within=BOOTED,
            every=0.5,
            describe=f"node {name} to be ready again",
            error=InconclusiveError,
        )
        for namespace, pod in self._off[name]:
            self._pod_runner.wait(namespace, {pod: True}, all_exist=False)
        del self._off[name]
        self._look_up_addresses()
        self._barrier.expect_news()
        if self._proxy_exits:
            self._proxy_exits.latest()  # ignore exits that the stop of the node or its new address caused
        self.settle()

    def _ready_pods_on(self, node: str) -> list[tuple[str, str]]:
        mine = ",".join(f"{key}={value}" for key, value in self._labels.items())
        return ready_pods_on(self.api, node, label_selector=mine)

    def _bypass(self) -> Bypass | None:
        def ask(pod: ClientPod, path: str, seconds: float) -> Response:
            node, url = self._clients.url_of(pod)
            return self._components.ask_pod(node, f"{url}/{path}", seconds)

        return ask


class KindContainersBackend(ContainersBackend, KindBackend):
    """One pytest worker's part of a kind cluster on this machine, with probes from the netns of nodes and pods."""
