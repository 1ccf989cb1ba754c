"""The backend of one scenario. It records which abilities and nodes the scenario needs (`harness.model.needs`)."""

from collections.abc import Iterable, Sequence
from typing import Literal

from harness.api.client import Api
from harness.backends.backend import Backend
from harness.backends.protocols import P, abilities_of, lacks, part_of
from harness.backends.releases import RESTART, ComponentReleases, Releases
from harness.model.abilities import Ability
from harness.model.needs import Needs
from harness.model.release import Component, Release
from harness.model.workloads import Client, Pod

Stream = Literal["nodes", "pods", "services"]
"""The kinds of objects that controllers and proxies watch separately. "services" includes EndpointSlices."""


class ScenarioBackend:
    """Wraps a backend for one scenario. Methods raise `UnavailableError` if the backend lacks an ability."""

    def __init__(self, booted: Backend, releases: Releases | None = None) -> None:
        self.booted = booted
        self.releases = ComponentReleases(booted, releases)
        self._abilities: set[Ability] = set()
        self._nodes: set[str] = set()
        self._wrote: Stream | None = None
        self._writes = 0

    @property
    def restored(self) -> Backend:
        """The backend, after restoring the component releases that the scenario expects. Raises `UnavailableError`."""
        self.releases.restore_left()
        return self.booted

    @property
    def api(self) -> Api:
        return self.restored.api

    @property
    def needs(self) -> Needs:
        return Needs(frozenset(map(str, self._abilities)), frozenset(self._nodes))

    @property
    def changes(self) -> int:
        return self._writes + self.releases.changes

    def need(self, *abilities: Ability, nodes: Iterable[str] = ()) -> None:
        """Record the needed abilities and nodes. Raises `UnavailableError` with the missing abilities."""
        self._abilities.update(abilities)
        known = {each.name for each in self.booted.topology.nodes}
        self._nodes.update(node for node in nodes if node in known)
        if missing := [each for each in abilities if each not in self.booted.abilities]:
            raise lacks(self.booted, *missing)

    def need_component(self, component: Component, release: Release, nodes: Sequence[str]) -> None:
        """Record that the scenario changes a component to this release. Raises `UnavailableError`."""
        changes = [Ability.CHANGE_RELEASE] if release != self.booted.release else []
        self.need(RESTART[component], *changes, nodes=nodes if component is Component.PROXY else ())

    def part(
        self, protocol: type[P], *abilities: Ability, nodes: Iterable[str] = (), client: Client | Pod | None = None
    ) -> P:
        """Return the backend, typed as this protocol, and record the abilities and nodes that the scenario needs."""
        needed = [*abilities_of(protocol), *abilities]
        if isinstance(client, Client) and client.kind == "external":
            needed.append(Ability.EXTERNAL_CLIENT)
        self.need(*needed, nodes=[*nodes, *([client.node] if client else [])])
        return part_of(self.restored, protocol, *abilities)

    def find(self, protocol: type[P]) -> P | None:
        """Return the backend, typed as this protocol, or None if the backend lacks the protocol. Record no needs."""
        return self.booted if isinstance(self.booted, protocol) else None

    def settle(self) -> float:
        self._wrote = None
        return self.restored.settle()

    def begin_to_write(self, stream: Stream) -> None:
        """Call `settle` if the last write was to another stream, because components watch streams separately."""
        self.releases.restore_left()
        self._writes += 1
        if self._wrote not in (None, stream):
            self.settle()
        self._wrote = stream
