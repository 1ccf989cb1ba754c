"""How a backend changes the components of a cluster that it did not build of its own processes."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from harness.errors import UnavailableError
from harness.model.abilities import Ability
from harness.model.release import Component, Release


class Components(Protocol):
    """Starts and stops API server, controller and proxies in place. Methods raise `UnavailableError`."""

    @property
    def abilities(self) -> frozenset[Ability]:
        """Which of the abilities to restart and to change it has."""

    def start(self, component: Component, release: Release, nodes: Sequence[str]) -> None:
        """Run a component as one of this release, in place of one that runs; return when it does.

        `nodes` are those of proxies, by the names that scenarios use.
        """

    def stop(self, component: Component, nodes: Sequence[str]) -> None:
        """Stop a component; what it has stored, written or programmed stays."""

    def metrics(self, component: Component, node: str) -> str:
        """What a component exposes as Prometheus text; `node` is that of a proxy. Raises `InconclusiveError`."""

    def stop_node(self, node: str) -> None:
        """Switch a node off, as a power failure would; nothing waits for what the control plane makes of it."""

    def start_node(self, node: str) -> None:
        """Switch it on again; nothing waits for its kubelet."""

    def close(self) -> None:
        """Leave the components of a cluster that stays as they were found. Idempotent."""


class Untouchable:
    """The components of somebody's cluster, which are left alone."""

    abilities: frozenset[Ability] = frozenset()

    def start(self, component: Component, release: Release, nodes: Sequence[str]) -> None:  # noqa: ARG002
        """Raises `UnavailableError`."""
        raise UnavailableError(f"nothing here may start or change the {component} of this cluster")

    def stop(self, component: Component, nodes: Sequence[str]) -> None:  # noqa: ARG002
        """Raises `UnavailableError`."""
        raise UnavailableError(f"nothing here may stop the {component} of this cluster")

    def metrics(self, component: Component, node: str) -> str:  # noqa: ARG002
        """Raises `UnavailableError`."""
        raise UnavailableError(f"metrics of the {component} are not reached from nodes")

    def stop_node(self, node: str) -> None:
        """Raises `UnavailableError`."""
        raise UnavailableError(f"nothing here may switch node {node} off")

    def start_node(self, node: str) -> None:
        """Raises `UnavailableError`."""
        raise UnavailableError(f"nothing here may switch node {node} on")

    def close(self) -> None:
        """Nothing was changed."""
