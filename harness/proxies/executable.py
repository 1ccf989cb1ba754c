"""Runs any proxy on every node from a recipe, so that a vendor writes a YAML file instead of code."""

from collections.abc import Sequence

from harness.control_planes.control_plane import ControlPlane
from harness.errors import UnavailableError
from harness.model.manifests import internal_addresses
from harness.model.release import Release
from harness.netns.addresses import family_of
from harness.netns.fabric import NetworkPeer
from harness.netns.namespace import Namespace
from harness.proxies.proxy import rules_of
from harness.recipes.programs import CLUSTER, Programs
from harness.recipes.recipe import Recipe


class ExecutableProxy:
    """The programs of a recipe on each node, and the programs that run once per cluster."""

    def __init__(self, plane: ControlPlane, recipe: Recipe, *, pod_cidrs: Sequence[str], mode: str = "unknown") -> None:
        self.name, self.version, self.mode = recipe.name, recipe.version, mode
        self._pod_cidrs = pod_cidrs
        self._booted: Release | None = None
        self._namespaces: dict[str, Namespace] = {}
        self._families = [family_of(cidr) for cidr in pod_cidrs]
        self._has_cluster_programs = bool(recipe.cluster_programs)
        self._outside: NetworkPeer | None = None
        self._programs = Programs(plane, recipe)
        # The harness can detect only whether programs on nodes are idle.
        self.tells_when_done = any(each.synced for each in recipe.programs) and not self._has_cluster_programs
        self.wiring = self._programs.pods
        self.clients = self._programs.clients

    def setup_cluster(self, outside: NetworkPeer) -> None:
        """Apply the objects of the recipe. Its cluster programs will run on the host `outside`. Raises `StartError`."""
        self._outside = outside
        self._programs.apply_objects()

    def setup(self, node: str, namespace: Namespace, release: Release) -> None:
        """Start the programs on a node. Raises `UnavailableError` if the release differs from the first."""
        self._booted = self._booted or release
        if (release.version, dict(release.gates)) != (self._booted.version, dict(self._booted.gates)):
            raise UnavailableError(f"{self.name} has only one version, which is not release {release}")
        assert self._outside is not None, "setup_cluster() must be called first"
        address = next(iter(self._outside.addresses.values()))
        values = {"cluster_cidrs": ",".join(self._pod_cidrs), "mode": self.mode, "address": address}
        if self._has_cluster_programs and not self._programs.running:
            self._programs.start_of_cluster(self._outside.namespace, self._families, values)
        self._namespaces[node] = namespace
        of_node = {"node": node, "node_ip": internal_addresses(self._programs.api.get("nodes", "", node))[0]}
        self._programs.start(node, namespace, self._families, values | of_node)

    def stop(self, node: str) -> None:
        """Stop the programs on a node. Their rules remain. The cluster programs stop with the last node's programs."""
        self._programs.stop(node)
        if not self._programs.running:
            self._programs.stop(CLUSTER)

    def close(self) -> None:
        self._programs.close()

    def synced(self) -> bool:
        return self._programs.synced()

    @property
    def lacking(self) -> str:
        return self._programs.lacking

    def remarks(self) -> list[str]:
        return self._programs.remarks()

    def explain(self, node: str, namespace: str, service: str) -> str:
        return self._programs.explain(node, namespace, service)

    def decisions(self, node: str) -> str:
        return self._programs.decisions(node)

    def evidence(self, node: str) -> dict[str, str]:
        of_cluster = self._programs.evidence(CLUSTER)
        if node not in self._namespaces:
            return of_cluster
        return of_cluster | self._programs.evidence(node) | rules_of(node, self._namespaces[node], self.mode)
