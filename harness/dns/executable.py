"""Runs the programs of a recipe as a DNS server in a pod, without a PodLocator controller."""

from harness.control_planes.control_plane import ControlPlane
from harness.dns.dns import ZONE
from harness.netns.fabric import NetworkPeer
from harness.recipes.programs import Programs
from harness.recipes.recipe import Recipe

POD = "dns"


class ExecutableDns:
    def __init__(self, plane: ControlPlane, recipe: Recipe) -> None:
        self.name = recipe.name
        self._programs = Programs(plane, recipe)

    def start(self, pod: NetworkPeer) -> None:
        self._programs.apply_objects()
        values = {"pod_ips": ",".join(pod.addresses.values()), "zone": ZONE}
        self._programs.start(POD, pod.namespace, pod.addresses, values)

    def stop(self) -> None:
        self._programs.close()

    def synced(self) -> bool:
        """Return whether all checks of the recipe succeed for `quiet_seconds`. The call takes at most 1 s longer."""
        return self._programs.synced()

    def evidence(self) -> dict[str, str]:
        return self._programs.evidence(POD)
