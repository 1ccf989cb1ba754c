"""A scenario's operations on the components of its cluster. `harness.backends.releases` restores the components."""

from collections.abc import Sequence
from dataclasses import replace

from harness.api.client import Api
from harness.backends.protocols import ControllerMetrics, ProxyMetrics
from harness.backends.scenario_backend import ScenarioBackend
from harness.errors import EndedError, InconclusiveError
from harness.judging.history import History
from harness.model.metrics import Metrics
from harness.model.release import Component, Release
from harness.scenario.steps import step


class ComponentOperations:
    """Stops and starts components, and reads metrics. Raises `UnavailableError` if the cluster lacks an ability."""

    def __init__(self, backend: ScenarioBackend, history: History) -> None:
        self.backend = backend
        self.history = history
        self.topology = backend.booted.topology

    @property
    def api(self) -> Api:
        return self.backend.api

    @property
    def families(self) -> Sequence[str]:
        """The cluster's IP families, starting with the primary family."""
        return self.backend.booted.families

    @property
    def release(self) -> Release:
        """The release of the cluster's components at boot."""
        return self.backend.booted.release

    def restart(self, component: Component, release: Release | None = None, *, on: Sequence[str] = ()) -> None:
        """Restart a component at this release, by default its release at boot, and wait until it has settled.

        A stopped component is started. Proxies are replaced on the nodes in `on`, by default on all nodes. Their rules
        stay in the kernel until the new proxy replaces them. All releases of a run use the same interpretation of the
        KEPs (`Release.follows`). The component is restored at the end of the scenario.
        """
        wanted, nodes = self._as_here(release), self._nodes(on)
        self.backend.need_component(component, wanted, nodes)
        self.backend.releases.restore_left()
        self._replace(component, wanted, nodes)

    def enable(self, gate: str, component: Component) -> None:
        """Restart a component with a feature gate enabled, unless the cluster booted with the gate enabled."""
        if not self.release.gates.get(gate):
            self.restart(component, replace(self.release, gates={**self.release.gates, gate: True}))

    def bring_to(self, component: Component, release: Release) -> None:
        """Restart a component at this release, on nodes where the previous scenario left another release running."""
        wanted = self._as_here(release)
        self.backend.need_component(component, wanted, self._nodes())
        if nodes := self.backend.releases.take_over(component, wanted):
            self._replace(component, wanted, nodes)

    @step("restart {component}")
    def _replace(self, component: Component, wanted: Release, nodes: list[str]) -> None:
        self.history.change("restart", component=component, release=wanted.to_json(), nodes=nodes)
        self.backend.releases.start(component, wanted, nodes)

    def start_if_ended(self, component: Component, *, on: Sequence[str] = ()) -> None:
        """Wait until components have settled. If this component has exited, restart it, as a kubelet would.

        Raises `EndedError` if a component still runs but has stopped processing changes.
        """
        self.backend.need_component(component, self.release, on)
        try:
            self.backend.settle()
        except EndedError as error:
            if error.component != component or not self.end_of(component):
                raise
            self.restart(component, on=on)

    def end_of(self, component: str) -> str:
        """Return how a component exited unexpectedly, or "" if it runs."""
        try:
            self.backend.booted.check_instruments()
        except EndedError as error:
            return str(error) if error.component == component else ""
        return ""

    @step("stop {component}")
    def stop(self, component: Component, *, on: Sequence[str] = ()) -> None:
        """Stop a component. As after a crash, its objects and its rules in the kernel remain."""
        nodes = self._nodes(on)
        self.backend.need_component(component, self.release, nodes)
        self.history.change("stop", component=component, nodes=nodes)
        self.backend.releases.stop(component, nodes)

    def metrics(self, component: Component, node: str = "") -> Metrics:
        """Return the metrics of a component, or of the proxy on `node`. Raises `InconclusiveError`."""
        if component is Component.PROXY:
            try:
                return Metrics(self.backend.part(ProxyMetrics, nodes=[node]).proxy_metrics(node))
            except OSError as error:
                raise InconclusiveError(f"the metrics of {component} on {node} cannot be read: {error}") from error
        return Metrics(self.backend.part(ControllerMetrics).controller_metrics())

    def _nodes(self, on: Sequence[str] = ()) -> list[str]:
        return list(on) or [node.name for node in self.topology.nodes]

    def _as_here(self, release: Release | None) -> Release:
        return self.release if release is None else replace(release, follows=self.release.follows)
