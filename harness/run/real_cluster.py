"""A run on a real cluster. The main process of the run checks the cluster, holds its Lease, and cleans up."""

import contextlib
from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Self

from harness.api.client import Api, Object, RefusedError
from harness.api.connection import find
from harness.backends.any_cluster.target import ClusterTarget, abilities, are_equal, match_nodes
from harness.backends.containers.backend import ContainersBackend
from harness.backends.containers.engine import find_engine
from harness.backends.containers.netns_lookup import NetnsLookup
from harness.backends.containers.reachability import choose
from harness.backends.kubeconfig import KubeconfigBackend
from harness.binaries.versions import parse_version, parse_wanted
from harness.checks.check import examine
from harness.checks.cluster import FAMILIES, FEATURE_GATES, CheckedNodes, CheckedServer
from harness.errors import DistrustError, InconclusiveError, UnavailableError
from harness.guest import errors
from harness.guest.labels import new_run_id
from harness.guest.lease import hold
from harness.guest.permissions import DISRUPTIVE, RULES
from harness.guest.preflight import ReachedServer, preflight
from harness.model.cluster_options import PACKETS
from harness.model.release import Release
from harness.model.topology import Topology
from harness.settings.settings import Settings

if TYPE_CHECKING:
    from harness.backends.kind.backend import KindBackend
    from harness.backends.kind.cluster import KindCluster

Say = Callable[[str], None]


class ClusterSession:
    """A run's session on a cluster, whose Lease it holds. `close` restores the cluster, and is idempotent."""

    def __init__(self, settings: Settings, say: Say) -> None:
        self._settings = settings
        self._say = say
        self._begun = contextlib.ExitStack()
        self._kind: KindCluster | None = None
        self.run_id = new_run_id()
        self.lacking: dict[str, str] = {}

    def start(self) -> Self:
        """Find or create the cluster, and acquire its Lease. Raises `UnavailableError` and `DistrustError`."""
        with contextlib.ExitStack() as begun:
            kubeconfig = self._settings.kubeconfig
            if self._settings.backend == "kind":
                kubeconfig = self._make_kind_cluster(begun)
            rules = (*RULES, *(DISRUPTIVE if self._settings.allow_disruptive else ()))
            reached = preflight(kubeconfig, self._settings.context, rules=rules)
            version = reached.version.get("gitVersion", "?")
            self._say(f"cluster {reached.server}, Kubernetes {version}, run {self.run_id}")
            api = Api(find(kubeconfig, context=self._settings.context))
            begun.callback(api.close)
            begun.enter_context(hold(api, self.run_id, say=self._say, ends=self._settings.cluster_ends))
            try:
                nodes = api.list("nodes")
                self.target = self._look(api, nodes, kubeconfig)
                self.lacking = self._cannot_show(api, nodes, reached)
            except (RefusedError, InconclusiveError) as error:
                raise UnavailableError(errors.of(error)) from error
            self._begun = begun.pop_all()
        return self

    def close(self) -> None:
        self._begun.close()

    def _cannot_show(self, api: Api, nodes: list[Object], reached: ReachedServer) -> dict[str, str]:
        """Return a mapping from features that cannot be observed on this cluster to the reasons."""
        server = CheckedServer(api, reached, self._settings.release.gates)
        of_nodes = CheckedNodes(server, self._settings.topology, nodes, self.target.names.nodes)
        found = examine([FAMILIES], of_nodes)
        if self._settings.backend != "kind":  # on kind, scenarios set the feature gates
            found += examine([FEATURE_GATES], server)
        return {feature: f"{each.name}: {each.found}" for each in found for feature in each.features}

    def _make_kind_cluster(self, begun: contextlib.ExitStack) -> str:
        self._kind = begun.enter_context(kind_cluster(self._settings, self.run_id, self._say))
        return str(self._kind.kubeconfig)

    def _look(self, api: Api, nodes: list[Object], kubeconfig: str) -> ClusterTarget:
        topology = self._settings.topology
        names = match_nodes(topology, nodes)
        found = Topology(topology.name, tuple(node for node in topology.nodes if node.name in names.nodes))
        if len(found.nodes) < 2:
            raise UnavailableError(
                f"{len(found.nodes)} of {len(nodes)} nodes are ready, accept pods and have a zone (label "
                "topology.kubernetes.io/zone): scenarios need at least two such nodes; see `trafficdist doctor`"
            )
        kind = self._kind
        disruptive = self._settings.allow_disruptive or kind is not None
        offered = abilities(disruptive=disruptive, equal_nodes=are_equal(topology, names, nodes))
        way = choose(self._settings.probes, nodes, names.nodes)
        self._say(str(way))
        target = ClusterTarget(
            kubeconfig=kubeconfig,
            context=self._settings.context,
            run_id=self.run_id,
            names=names,
            topology=found,
            abilities=offered | way.abilities | (kind.abilities if kind else frozenset()),
            registry=self._settings.image_registry,
            backend=self._settings.backend,
            probes=way.probes,
        )
        if kind is None:
            return target
        return replace(target, proxies=kind.proxy_places(api), services=kind.services, facts=kind.facts)


def kind_cluster(settings: Settings, run_id: str, say: Say = print) -> "KindCluster":
    """Return the kind cluster of a run without creating it. Raises `UsageError`."""
    from harness.backends.kind.cluster import KindCluster  # noqa: PLC0415  only for --backend kind
    from harness.recipes.recipe import OF_PROXY, read_recipe  # noqa: PLC0415

    return KindCluster(
        settings.topology,
        families=settings.families,
        mode="iptables" if settings.mode in ("", "default") else settings.mode,
        image=settings.kind_image,
        feature_gates=settings.release.gates,
        run_id=run_id,
        keep=settings.keep_cluster,
        cni=settings.cni,
        proxy=read_recipe(settings.proxy.file, OF_PROXY) if settings.proxy.file else None,
        say=say,
    )


def boot(values: Mapping[str, Any], settings: Settings, worker: str) -> KubeconfigBackend:
    """Boot the backend of one worker. Raises `DistrustError`."""
    target = ClusterTarget.from_json(values)
    try:
        if target.backend == "kind":
            return _boot_on_kind(settings, target, worker)
        common: dict[str, Any] = {"worker": worker, "release": settings.release}
        if target.probes == PACKETS:
            return ContainersBackend(target, target.plain_api(), places=_places(target, worker), **common).start()
        return KubeconfigBackend(target, target.plain_api(), **common).start()
    except (RefusedError, InconclusiveError, UnavailableError) as error:
        raise DistrustError(errors.of(error)) from error


@contextlib.contextmanager
def held(settings: Settings, say: Say) -> Iterator[KubeconfigBackend]:
    """Find or create a cluster, hold its Lease during the block, and boot a backend for it in this process."""
    with contextlib.ExitStack() as held:
        session = held.enter_context(contextlib.closing(ClusterSession(settings, say).start()))
        yield held.enter_context(contextlib.closing(boot(session.target.to_json(), settings, "main")))


def _boot_on_kind(settings: Settings, target: ClusterTarget, worker: str) -> "KindBackend":
    from harness.backends.kind.backend import KindBackend, KindContainersBackend  # noqa: PLC0415

    kind = kind_cluster(settings, target.run_id).found()
    api = target.plain_api()
    patches = dict(each.split("=", 1) for each in settings.kind_patch)
    release = _release_of_kind(settings, api, patches)
    components = kind.components(api, release, patches=patches)
    common: dict[str, Any] = {"components": components, "worker": worker, "release": release}
    if target.probes == PACKETS:
        return KindContainersBackend(target, api, places=_places(target, worker), **common).start()
    return KindBackend(target, api, **common).start()


def _places(target: ClusterTarget, worker: str) -> NetnsLookup:
    nodes = {node.name: target.names.nodes[node.name] for node in target.topology.nodes}
    return NetnsLookup(find_engine(), nodes, who=f"trafficdist-{target.run_id}-{worker}-outside")


def _release_of_kind(settings: Settings, api: Api, patches: Mapping[str, str]) -> Release:
    """Return the release of a kind cluster. Its version is "" if --kind-patch names another patch release."""
    found = parse_version(str(api.request("GET", "/version").body.get("gitVersion", "?")))
    known = found is not None and parse_wanted(patches.get(found.series, found.series)).allows(found)
    return replace(settings.release, version=found.series if found and known else "")
