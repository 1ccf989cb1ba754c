"""Fixtures for scenarios, such as `three_zones`, which returns a `Cluster` with this topology."""

import gc
import itertools
from collections.abc import Callable, Collection, Iterator, Mapping
from typing import TYPE_CHECKING, Any

import pytest

from harness.errors import DistrustError, EndedError, IneligibleError
from harness.judging.history import History
from harness.model.generation_settings import GenerationSettings
from harness.model.topology import THREE_ZONES, Topology
from harness.plugin.time_limit import uncounted
from harness.run.plan import claimed
from harness.run.run import Run, run_of
from harness.scenario.unrelated_objects import SharedServices
from harness.settings.implementations import of_settings
from harness.variation import axes
from harness.variation.axes import PLAIN, DrawnValues
from harness.variation.node_names import cloud_names

if TYPE_CHECKING:
    from harness.backends.backend import Backend
    from harness.backends.releases import Releases
    from harness.plugin.basic_checks import BasicChecks
    from harness.scenario.cluster import Cluster

COLLECTIONS = (10_000, 20, 20)
"""Thresholds of the garbage collector, which are high because probes create many objects without reference cycles."""


class BackendPool:
    def __init__(self, run: Run) -> None:
        self._run = run
        self._booted: dict[tuple[str, str], Backend] = {}
        self._shared_services: dict[tuple[str, str], SharedServices] = {}
        self._releases: dict[tuple[str, str], Releases] = {}
        self._hint_facts: dict[str, bool] = {}  # result of the smoke test on the first cluster
        self._basic_checks: BasicChecks | None = None  # they use the first cluster

    def __call__(self, topology: Topology, draw: DrawnValues = PLAIN) -> "Backend":
        key = topology.name, draw[axes.NAMES]
        if key not in self._booted:
            with uncounted():
                self._boot(key, topology, draw)
        return self._booted[key]

    def _boot(self, key: tuple[str, str], topology: Topology, draw: DrawnValues) -> None:
        self._booted[key] = _boot(self._run, topology, draw)
        try:  # before any test: a broken instrument must not judge
            self._booted[key].check_instruments()
        except EndedError as error:
            raise DistrustError(str(error)) from error
        if len(self._booted) == 1:
            self._hint_facts = self._smoke_test(self._booted[key])
            self._basic_checks = self._check_basics(self._booted[key])
        gc.freeze()  # the objects of a cluster persist, so the collector need not scan them after every scenario
        gc.set_threshold(*COLLECTIONS)

    def shared_services(self, topology: Topology, draw: DrawnValues) -> SharedServices:
        return self._shared_services.setdefault((topology.name, draw[axes.NAMES]), SharedServices(_prefix(self._run)))

    def releases(self, topology: Topology, draw: DrawnValues) -> "Releases | None":
        """Return the record of components that scenarios changed, or None if workers share these components."""
        shared = self._run.target and self._run.worker
        return None if shared else self._releases.setdefault((topology.name, draw[axes.NAMES]), {})

    def environment(self) -> dict[str, Any]:
        return dict(self._hint_facts)

    def unanswered(self, used: Collection[str]) -> Mapping[str, Collection[str]]:
        return self._basic_checks.unanswered(used) if self._basic_checks else {}

    def close(self) -> None:
        if self._basic_checks:
            self._basic_checks.close()
        for key, each in self._booted.items():
            if key in self._shared_services and self._run.target:
                self._shared_services[key].make(each, "none")
            each.close()

    def _smoke_test(self, backend: "Backend") -> dict[str, bool]:
        from harness.plugin.hint_smoke_test import NAMESPACE, hint_facts  # noqa: PLC0415

        return hint_facts(backend, f"{_prefix(self._run)}first" if self._run.target else NAMESPACE)

    def _check_basics(self, backend: "Backend") -> "BasicChecks | None":
        from harness.plugin.basic_checks import BasicChecks, required_checks  # noqa: PLC0415
        from harness.scenario.cluster import Cluster  # noqa: PLC0415

        plan = self._run.plan
        if plan is None or not (about := required_checks(plan, backend.families)):
            return None
        namespace = f"{_prefix(self._run)}preliminary"
        return BasicChecks(Cluster(backend, namespace, history=self._run.history, test="preliminary"), about)


@pytest.fixture(scope="session")
def _run(request: pytest.FixtureRequest) -> Run:
    run = run_of(request.config)
    assert run is not None, "the plugin registers these fixtures for a run"
    return run


@pytest.fixture(scope="session")
def backends(_run: Run) -> Iterator[BackendPool]:
    made = BackendPool(_run)
    yield made
    made.close()


def _boot(run: Run, topology: Topology, draw: DrawnValues) -> "Backend":
    if run.target:
        from harness.run.real_cluster import boot  # noqa: PLC0415

        return boot(run.target, run.settings, run.worker or "main")
    from harness.backends.netns import NetnsBackend  # noqa: PLC0415

    settings = run.settings
    return NetnsBackend(
        topology,
        families=settings.families,
        implementation=of_settings(settings),
        release=settings.release,
        names=cloud_names(topology) if draw[axes.NAMES] == "cloud" else None,
    ).start()


def _prefix(run: Run) -> str:
    run_id = f"{run.target['run_id']}-" if run.target else ""
    return f"td-{run_id}{run.worker or 'main'}-"


@pytest.fixture(scope="session")
def history(_run: Run) -> History:
    return _run.history  # the plugin closes it, after the last verdict


@pytest.fixture(scope="session")
def _numbers() -> Iterator[int]:
    return itertools.count(1)


@pytest.fixture
def generation(request: pytest.FixtureRequest) -> GenerationSettings | None:
    """The generated cases that the requesting test runs, or None if it runs the cases of the suite."""
    return getattr(request, "param", None)


@pytest.fixture
def new_cluster(
    request: pytest.FixtureRequest,
    backends: BackendPool,
    generation: GenerationSettings | None,
    _run: Run,
    _numbers: Iterator[int],
) -> "Iterator[Callable[[Topology], Cluster]]":
    """Yield a function that creates clusters of any topology, each in a separate Kubernetes namespace."""
    from harness.scenario.cluster import Cluster  # noqa: PLC0415

    made: list[Cluster] = []
    settings = _run.settings

    def make(wanted: Topology) -> "Cluster":
        topology = settings.topology_for(wanted)
        if topology is None and _run.target:
            raise IneligibleError(f"the cluster does not have topology {wanted.name}")
        if topology is None:
            nodes = " ".join(node.name for node in wanted.nodes)
            raise IneligibleError(f"the selected topology lacks nodes {nodes} or has them in other zones")
        marker = request.node.get_closest_marker("requirement")
        test = marker.args[0].id if marker is not None else request.node.nodeid
        draw = _run.draw_of(test)
        cluster = Cluster(
            backends(topology, draw),
            f"{_prefix(_run)}{next(_numbers)}",
            history=_run.history,
            test=test,
            converges_within=settings.converges_within,
            ended_before=_run.known_ends,
            releases=backends.releases(topology, draw),
            draw=draw,
            shared=backends.shared_services(topology, draw),
            unanswered=backends.unanswered,
            claims=lambda feature: claimed(feature, settings),
        )
        cluster.generation = generation
        made.append(cluster)
        return cluster

    yield make
    if settings.cluster_ends and request.session.exitstatus != pytest.ExitCode.OK:
        return  # the run ends early: restoring components takes minutes, and the cluster is deleted next
    for each in made:
        each.close()


@pytest.fixture
def three_zones(new_cluster: "Callable[[Topology], Cluster]") -> "Cluster":
    """A cluster of nodes a1, a2, b1, b2 and c1 in zones a, b and c."""
    return new_cluster(THREE_ZONES)
