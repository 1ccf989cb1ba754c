"""Sets the releases of components for scenarios, and restores the initial releases. Until a scenario uses the API or
sends probes, it keeps the previous scenario's releases, because it may request one of them (`take_over`).
"""

import contextlib
from collections.abc import Sequence
from collections.abc import Set as AbstractSet

from harness.backends.backend import Backend
from harness.backends.protocols import ComponentControl, part_of
from harness.errors import DistrustError, EndedError
from harness.model.abilities import Ability
from harness.model.release import Component, Release

Releases = dict[Component, dict[str, Release | None]]
"""Releases that differ from the one at boot, keyed by component and node. None means that the component is stopped."""

RESTART = {
    Component.API_SERVER: Ability.RESTART_API_SERVER,
    Component.CONTROLLER: Ability.RESTART_CONTROLLER,
    Component.PROXY: Ability.RESTART_PROXY,
    Component.LOCATOR_CONTROLLER: Ability.DNS,
}
"""The ability that a scenario needs to replace or stop a component."""


class ComponentReleases:
    """The releases of components in one scenario. Methods raise `UnavailableError` and `EndedError`."""

    def __init__(self, backend: Backend, releases: Releases | None) -> None:
        """The previous scenario left `releases` in place. If it is None, `end` restores all components."""
        self.changes = 0  # number of operations that the scenario has started
        self._backend = backend
        self._is_last = releases is None
        self._others: Releases = {} if releases is None else releases
        self._left = set(self._others)  # components that must be restored after the previous scenario

    def take_over(self, component: Component, release: Release) -> list[str]:
        """Exclude a component from `restore_left`. Return the nodes where it is stopped or has another release."""
        self._left.discard(component)
        return self._nodes_at_another(component, release)

    def start(self, component: Component, release: Release, nodes: Sequence[str]) -> None:
        self._note(component, nodes, None)  # None until the component has started
        self._control(component).start_component(component, release, nodes)
        self._note(component, nodes, release)

    def stop(self, component: Component, nodes: Sequence[str]) -> None:
        self.restore_left()
        control = self._control(component)
        self._note(component, nodes, None)
        control.stop_component(component, nodes)

    def _control(self, component: Component) -> ComponentControl:
        self.changes += 1
        return part_of(self._backend, ComponentControl, RESTART[component])

    def _note(self, component: Component, nodes: Sequence[str], release: Release | None) -> None:
        known = self._others.pop(component, {}) | dict.fromkeys(nodes, release)
        if others := {node: each for node, each in known.items() if each != self._backend.release}:
            self._others[component] = others

    def current(self, component: Component, node: str) -> Release | None:
        """Return the current release of a component, or of the proxy on this node. Return None if it is stopped."""
        return self._others.get(component, {}).get(node, self._backend.release)

    def restore_left(self) -> None:
        """Restore components that the previous scenario changed and this scenario has not taken over."""
        self._restore(self._left)

    def end(self) -> None:
        """Restore all components, or if another scenario follows, only those that were stopped or have crashed."""
        self._restore(set(self._others), stopped=not self._is_last)
        if self._others:
            name = self._ended()
            for component in [each for each in self._others if each == name]:
                self._note(component, list(self._others[component]), None)
                self._restore({component}, stopped=True)

    def _ended(self) -> str:
        with contextlib.suppress(DistrustError):  # the judge checks this too
            try:
                self._backend.check_instruments()
            except EndedError as error:
                return error.component
        return ""

    def _restore(self, components: AbstractSet[Component], *, stopped: bool = False) -> None:
        for component in sorted(components, key=list(Component).index):
            nodes = self._nodes_at_another(component, self._backend.release)
            if stopped:
                nodes = [node for node in nodes if self._others[component][node] is None]
            if nodes:
                with contextlib.suppress(EndedError):
                    self.start(component, self._backend.release, nodes)
                self._note(component, nodes, self._backend.release)  # the component may have ended
            self._left.discard(component)

    def _nodes_at_another(self, component: Component, release: Release) -> list[str]:
        known, booted = self._others.get(component, {}), self._backend.release
        return [node.name for node in self._backend.topology.nodes if known.get(node.name, booted) != release]
