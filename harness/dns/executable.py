"""Any DNS server in a pod, run by a recipe: a vendor writes a YAML file and no code.

It brings what it needs beside the API server: no controller of PodLocators is run for it.
"""

from __future__ import annotations

from harness.control_planes.control_plane import ControlPlane
from harness.dns.dns import ZONE
from harness.netns.fabric import Host
from harness.recipes.programs import Programs
from harness.recipes.recipe import Recipe

POD = "dns"


class ExecutableDns:
    """The program of a recipe, in a pod of the cluster."""

    def __init__(self, plane: ControlPlane, recipe: Recipe) -> None:
        self.name = recipe.name
        self._programs = Programs(plane, recipe)

    def start(self, pod: Host) -> None:
        """Start the program in a pod. Raises `DistrustError` with the end of its log if it does not get ready."""
        values = {"pod_ips": ",".join(pod.addresses.values()), "zone": ZONE}
        self._programs.start(POD, pod.namespace, pod.addresses, values)

    def stop(self) -> None:
        """Stop the program, and remove its files."""
        self._programs.close()

    def synced(self) -> bool:
        """Return whether all checks held for the recipe's time. Takes up to a second more than that."""
        return self._programs.synced()

    def evidence(self) -> dict[str, str]:
        """Return the log of the program, and its files."""
        return self._programs.evidence(POD)
