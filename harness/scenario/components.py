"""Components of a cluster as a scenario replaces and stops them, each on the nodes that it names.

For every component and node there is a note of the release that it has now. So only what has another release than at
boot is replaced again in the end, and a component that a crash has stopped counts as having none.
"""

from __future__ import annotations

import contextlib
from collections.abc import Sequence
from dataclasses import replace

from harness.backends.view import View
from harness.errors import EndedError
from harness.judging.history import History
from harness.model.metrics import Metrics
from harness.model.release import Component, Release
from harness.scenario.steps import step


class Components:
    """The components of one scenario's cluster."""

    def __init__(self, backend: View, history: History) -> None:
        """Changes go to the history. Methods raise `UnavailableError` if the cluster lacks an ability."""
        self.backend = backend
        self.history = history
        self.topology = backend.topology
        self._changed: dict[Component, dict[str, Release | None]] = {}  # the release of each, by node; None: unknown

    @step("restart {component}")
    def restart(self, component: Component, release: Release | None = None, *, on: Sequence[str] = ()) -> None:
        """Replace a component by one of a release, by default the one at boot, and wait until it has settled.

        It also starts a stopped one. Proxies are replaced `on` these nodes, by default on all; the rules in the kernel
        stay in force until the next proxy has replaced them. `Cluster.close` restores everything. All releases of a run
        follow the same reading (`Release.follows`).
        """
        wanted = self._as_here(release)
        nodes = self._note_change(component, on, wanted)
        self.history.change("restart", component=component, release=wanted.to_json(), nodes=nodes)
        self.backend.start_component(component, wanted, nodes)
        self._changed[component].update(dict.fromkeys(nodes, wanted))

    def bring_to(self, component: Component, release: Release) -> None:
        """Replace a component by one of this release, on nodes where it has another one."""
        wanted, changed = self._as_here(release), self._changed.get(component, {})
        nodes = [node.name for node in self.topology.nodes]
        self.backend.need_component(component, wanted, nodes)
        others = [node for node in nodes if changed.get(node, self.backend.release) != wanted]
        if others:
            self.restart(component, release, on=others)

    def start_if_ended(self, component: Component, *, on: Sequence[str] = ()) -> None:
        """Wait until all has settled, and start a component again that has ended by itself, as a kubelet would.

        Raises `EndedError` for one that runs, and works no longer on what is written.
        """
        self.backend.need_component(component, self.backend.release, on)
        try:
            self.backend.settle()
        except EndedError as error:
            if error.component != component or not self.end_of(component):
                raise
            self.restart(component, on=on)

    def end_of(self, component: str) -> str:
        """Return how a component has ended by itself; "" if it runs."""
        try:
            self.backend.check_instruments()
        except EndedError as error:
            return str(error) if error.component == component else ""
        return ""

    @step("stop {component}")
    def stop(self, component: Component, *, on: Sequence[str] = ()) -> None:
        """Stop a component, as a crash or a drain would: objects, slices and rules in the kernel stay."""
        nodes = self._note_change(component, on, self.backend.release)
        self.history.change("stop", component=component, nodes=nodes)
        self.backend.stop_component(component, nodes)

    def metrics(self, component: Component, node: str = "") -> Metrics:
        """Return the present metrics of a component; `node` chooses the proxy."""
        of_proxy = component is Component.PROXY
        return Metrics(self.backend.proxy_metrics(node) if of_proxy else self.backend.controller_metrics())

    def restore_components(self) -> None:
        """Restore every component to its release at boot; one that has ended does not keep the others from that."""
        booted = self.backend.release
        for component in sorted(self._changed, key=list(Component).index):
            nodes = sorted(node for node, release in self._changed[component].items() if release != booted)
            if nodes:
                with contextlib.suppress(EndedError):
                    self.backend.start_component(component, booted, nodes)

    def _note_change(self, component: Component, on: Sequence[str], wanted: Release) -> list[str]:
        nodes = list(on) or [node.name for node in self.topology.nodes]
        self.backend.need_component(component, wanted, nodes)
        self._changed.setdefault(component, {}).update(dict.fromkeys(nodes))
        return nodes

    def _as_here(self, release: Release | None) -> Release:
        booted = self.backend.release
        return booted if release is None else replace(release, follows=booted.follows)
