"""Determines whether this machine can send probes from the netns of a cluster's nodes and pods, and if not, why."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from harness.api.client import Object
from harness.backends.containers.engine import find_engine
from harness.backends.containers.netns_lookup import NetnsLookup
from harness.errors import UnavailableError
from harness.model.abilities import Ability
from harness.model.cluster_options import AGNHOST, PACKETS
from harness.model.manifests import internal_addresses
from harness.netns import sandbox

ABILITIES = frozenset(
    {
        Ability.LOAD_BALANCER,
        Ability.EXTERNAL_IPS,
        Ability.OPEN_CONNECTIONS,
        Ability.SOURCE_PORTS,
        Ability.HTTP,
        Ability.MANY_PORTS,
    }
)
"""The abilities that require probes from the netns of nodes and pods."""

_BOOT_ID = Path("/proc/sys/kernel/random/boot_id")


@dataclass(frozen=True, slots=True)
class ProbeMethod:
    """How a run sends its probes (`PACKETS` or `AGNHOST`), and why."""

    probes: str
    why: str

    @property
    def abilities(self) -> frozenset[Ability]:
        return ABILITIES if self.probes == PACKETS else frozenset()

    def __str__(self) -> str:
        if self.probes == PACKETS:
            return f"probes are packets from the network namespaces of nodes and pods: {self.why}"
        return f"probes are sent with agnhost in pods, through the API server: {self.why}"


def choose(wanted: str, nodes: Sequence[Object], names: Mapping[str, str]) -> ProbeMethod:
    """Return how to send probes from these nodes. Raises `UnavailableError` if `PACKETS` is set but not possible."""
    if wanted == AGNHOST:
        return ProbeMethod(AGNHOST, "as set by option probes")
    try:
        engine = _find_engine([each for each in nodes if each["metadata"]["name"] in names.values()])
    except UnavailableError as error:
        if wanted == PACKETS:
            raise UnavailableError(f"`probes: packets` is not possible: {error}") from error
        return ProbeMethod(AGNHOST, str(error).splitlines()[0])
    return ProbeMethod(PACKETS, f"nodes are containers of {engine} on this machine")


def _find_engine(nodes: Sequence[Object]) -> str:
    for node in nodes:
        if elsewhere := is_elsewhere(node):
            raise UnavailableError(elsewhere)
    if not sandbox.able() or sandbox.left():
        raise UnavailableError("an ordinary user may not enter the networks of containers; run as root")
    engine = find_engine()
    containers = {str(node["metadata"]["name"]): node for node in nodes}
    places = NetnsLookup(engine, {name: name for name in containers})
    for name, node in containers.items():
        places.node(name, internal_addresses(node)).close()
    return engine.name


def is_elsewhere(node: Object, boot_id: Path = _BOOT_ID) -> str:
    """Return an error text if a node's boot ID is not the boot ID of this machine, else ""."""
    reported = ((node.get("status") or {}).get("nodeInfo") or {}).get("bootID", "")
    try:
        same = reported == boot_id.read_text("ascii").strip()
    except OSError:
        same = False
    return "" if same else f"node {node['metadata']['name']} is on another machine or in a virtual machine"
