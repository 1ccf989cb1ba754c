"""The settings of a run, which are the same in the xdist controller and all workers."""

import dataclasses
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from harness.control_planes.choice import ControlPlaneChoice, choose
from harness.model.generation_settings import GenerationSettings, amount
from harness.model.release import Release, parse_gates
from harness.model.release_features import NEWEST, minor_of
from harness.model.topology import THREE_ZONES, Topology, parse_topology
from harness.settings.claims import REAL_CLUSTERS, REFERENCE, ChosenProxy, parse_proxy


@dataclass(frozen=True, slots=True)
class Settings:
    """The value of each option in `harness.settings.options`. A string option is "" if it was not set."""

    backend: str
    kubeconfig: str
    context: str
    image_registry: str
    allow_disruptive: bool
    kind_image: str
    probes: str
    kind_patch: tuple[str, ...]
    cni: str
    keep_cluster: bool
    proxy: ChosenProxy
    mode: str
    judges: str
    dns: str
    control_plane: str
    controller: str
    mutant: str
    kubernetes_version: str
    feature_gates: tuple[str, ...]
    follow: str
    converges_within: float
    limits: tuple[str, ...]
    topology: Topology
    families: tuple[str, ...]
    profile: tuple[str, ...]
    supported_features: tuple[str, ...]
    exempt_features: tuple[str, ...]
    all_features: bool
    run_test: tuple[str, ...]
    generate: str
    replay: str
    quick: bool
    skip_tests: tuple[str, ...]
    shard: str
    organization: str
    project: str
    url: str
    version: str
    contact: tuple[str, ...]
    output_dir: str
    seed: int
    draw: str
    time_scale: float
    keep: str
    junit_warnings: str
    fail_fast: bool
    warnings_as_errors: bool
    workers: str
    given: tuple[str, ...] = ()  # the keys of the options that were set, and not left at their default

    @property
    def components(self) -> ControlPlaneChoice:
        return choose(self.control_plane, self.controller)

    @property
    def claims_everything(self) -> bool:
        return self.all_features or (self.judges_reference and not self.supported_features)

    @property
    def judges_reference(self) -> bool:
        return self.proxy.kind == self.dns == REFERENCE

    @property
    def reference_minor(self) -> int:
        """The minor version that the reference emulates: 31 for 1.31. The default is `NEWEST`."""
        alone = self.proxy.kind == REFERENCE and not self.components.real
        return minor_of(self.kubernetes_version) if alone else NEWEST

    @property
    def cluster_ends(self) -> bool:
        """True if the run deletes the real cluster at its end, and therefore does not restore its state."""
        return self.backend == "kind" and not self.keep_cluster

    @property
    def release(self) -> Release:
        return Release(self.kubernetes_version, parse_gates(self.feature_gates), self.follow)

    @property
    def generation(self) -> GenerationSettings | None:
        """The scenarios to generate or to replay, or None if the run uses the suite's own scenarios."""
        if self.replay:
            return GenerationSettings(self.seed, replay=self.replay)
        if not self.generate:
            return None
        seconds, cases = amount(self.generate)
        return GenerationSettings(self.seed, seconds, cases)

    def topology_for(self, wanted: Topology) -> Topology | None:
        """Return the topology to boot for a scenario that requires `wanted`, or None if the scenario cannot run.

        Scenarios for the default topology run on any topology that has at least its nodes. On a real cluster, they also
        run with fewer nodes if the table of needs permits this.
        """
        if self.backend in REAL_CLUSTERS:
            return self.topology if wanted.name in (THREE_ZONES.name, self.topology.name) else None
        if wanted.name != THREE_ZONES.name:
            return wanted
        return self.topology if set(wanted.nodes) <= set(self.topology.nodes) else None

    def to_json(self) -> dict[str, Any]:
        return dataclasses.asdict(self) | {"topology": str(self.topology), "proxy": str(self.proxy)}

    @classmethod
    def from_json(cls, values: Mapping[str, Any]) -> "Settings":
        """Restore settings from the values of `to_json`. JSON may have turned tuples into lists."""
        plain: dict[str, Any] = {
            key: tuple(value) if isinstance(value, list) else value for key, value in values.items()
        }
        topology, proxy = parse_topology(plain["topology"]), parse_proxy(plain["proxy"])
        return cls(**plain | {"topology": topology, "proxy": proxy})
