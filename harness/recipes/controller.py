"""Run any EndpointSlice controller from a recipe, once per cluster in its own netns, with the reference API server."""

from harness.control_planes.embedded import EmbeddedControlPlane
from harness.errors import UnavailableError
from harness.model.release import Release
from harness.netns.addresses import FAMILIES
from harness.netns.namespace import Namespace
from harness.netns.rtnetlink import LOOPBACK, execute, up
from harness.recipes.programs import Programs
from harness.recipes.recipe import Recipe

_PLACE = "controller"


class RecipeControlPlane(EmbeddedControlPlane):
    """The embedded control plane, in which the programs of a recipe write EndpointSlices."""

    def __init__(self, release: Release, recipe: Recipe) -> None:
        super().__init__(release)
        self._recipe = recipe
        self._programs: Programs | None = None
        self._place: Namespace | None = None

    @property
    def controller(self) -> str:
        return f"{self._recipe.name} {self._recipe.version}".rstrip()

    @property
    def lacking(self) -> str:
        return self._programs.lacking if self._programs else ""

    def start_controller(self, release: Release) -> None:
        """Start the programs. Raises `UnavailableError` for another release, because a recipe has only one version."""
        if (release.version, dict(release.gates)) != (self.release.version, dict(self.release.gates)):
            raise UnavailableError(f"{self._recipe.name} has only one version, and it is not release {release}")
        if self._programs is None or self._place is None:
            self._place = Namespace.create()
            execute(self._place, [up(LOOPBACK)])
            self._programs = Programs(self, self._recipe)
            self._programs.apply_objects()
        self._programs.start(_PLACE, self._place, FAMILIES, {})

    def stop_controller(self) -> None:
        if self._programs:
            self._programs.stop(_PLACE)

    def stop(self) -> None:
        if self._programs:
            self._programs.close()
        super().stop()
        if self._place:
            self._place.close()

    def synced(self) -> bool:
        """Return whether all checks succeed for `quiet_seconds`, or the API server is down. Raises `EndedError`."""
        if self._programs is None or not self._programs.running:
            return True
        return not self._informer.connected or self._programs.synced()

    def metrics(self) -> str:
        """Raise `UnavailableError`, because the names of the controller's metrics are unknown."""
        raise UnavailableError(f"the metrics of {self._recipe.name} are unknown")

    def evidence(self) -> dict[str, str]:
        return self._programs.evidence(_PLACE) if self._programs else {}
