"""Installs a recipe's proxy on a kind cluster without kube-proxy, and waits until it is ready."""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from harness.api.client import Api
from harness.backends.kind.checks import KindTools
from harness.backends.kind.workloads import lacking, trouble
from harness.errors import InconclusiveError, StartError, UnavailableError
from harness.eventually import NotYetError, eventually
from harness.guest.leftovers import Say
from harness.model.private_folder import PrivateFolder
from harness.netns import process
from harness.recipes.installation import Installation, images_in
from harness.recipes.objects import apply
from harness.recipes.recipe import Recipe

INSTALL_SECONDS = 600.0
SAVE_SECONDS = 300.0
_LOOK = 0.5
_POD_CIDRS = {"IPv4": "10.244.0.0/16", "IPv6": "fd00:10:244::/56"}
_SERVICE_CIDRS = {"IPv4": "10.96.0.0/16", "IPv6": "fd00:10:96::/112"}  # kind's defaults


@dataclass(frozen=True, slots=True)
class ProxyInstaller:
    """Installs a recipe on a cluster. `nodes` maps kind's names to readable names, the control plane node first."""

    api: Api
    recipe: Recipe
    mode: str
    cluster: str
    families: tuple[str, ...]
    nodes: Mapping[str, str]
    kubeconfig: Path
    say: Say

    @property
    def _what(self) -> Installation:
        assert self.recipe.installation is not None
        return self.recipe.installation

    def apply(self, log: Path) -> None:
        self.say(f"{self.recipe.name} is being installed in place of kube-proxy")
        server = next(iter(self.nodes))
        known = {
            "server": f"https://{server}:6443",
            "server_host": server,
            "cluster_cidrs": ",".join(_POD_CIDRS[each] for each in self.families),
            "service_cidrs": ",".join(_SERVICE_CIDRS[each] for each in self.families),
            "mode": self.mode,
            "kubeconfig": str(self.kubeconfig),
            "cluster": self.cluster,
        }
        apply(self.api, self._what.objects_with(known), self.recipe.name)
        if self._what.install:
            who = f"{self.recipe.name}: its command to install"
            environment = {"KUBECONFIG": str(self.kubeconfig)}
            process.start(who, self._what.command_with(known), log=log, environment=environment).finish(INSTALL_SECONDS)

    def wait(self) -> None:
        """Wait until all workloads are ready. Raises `StartError` with an unready pod's name, node and log."""
        missing = ""

        def ready() -> bool:
            nonlocal missing
            before, lack = missing, ((each, lacking(self.api, each)) for each in self._what.ready)
            try:
                missing = next((f"{each}: {text}" for each, text in lack if text), "")
            except InconclusiveError as error:  # the API server is busy, or was replaced by the command
                missing = str(error)
            if missing and missing != before:
                self.say(missing)
            return not missing

        try:
            eventually(ready, within=self._what.ready_seconds, every=_LOOK, describe=lambda: missing)
        except NotYetError as error:
            raise self._not_ready() from error
        self.say(f"{self.recipe.name} is ready")

    def _not_ready(self) -> StartError:
        found = [trouble(self.api, each, self.nodes) for each in self._what.ready if lacking(self.api, each)]
        why = found[0][0] if found else "it was too slow"
        error = StartError(
            f"{self.recipe.name} did not become ready within {self._what.ready_seconds:g} s: {why}\n"
            "set keep-cluster in an options file to inspect the cluster"
        )
        error.logs = {name: text for _, logs in found for name, text in logs.items()}
        return error


def load_images(tools: KindTools, cluster: str, named: list[str], log: Path, say: Say) -> None:
    """Load image archives, and images that the engine has, onto all nodes. Raises `StartError`."""
    archives = [each for each in named if each.endswith(".tar")]
    here = [each for each in dict.fromkeys(named) if each not in archives and tools.engine.has_image(each)]
    with PrivateFolder("trafficdist-images-") as own:
        if here:
            saved = str(own.path / "images.tar")
            say(f"images for the nodes: {', '.join(here)}")
            tools.engine.ask("save", "--output", saved, *here, seconds=SAVE_SECONDS)
            archives.append(saved)
        for each in archives:
            command: list[str | Path] = [tools.kind, "load", "image-archive", each, "--name", cluster]
            running = process.start("kind load", command, log=log, environment=tools.engine.environment())
            running.finish(SAVE_SECONDS)


def images_of(recipe: Recipe) -> list[str]:
    installation = recipe.installation
    return [*installation.images, *images_in(installation.objects)] if installation else []


def require_images(tools: KindTools, recipe: Recipe) -> None:
    """Raise `UnavailableError` if the engine lacks an image that the recipe lists."""
    named = recipe.installation.images if recipe.installation else ()
    if absent := [each for each in named if not each.endswith(".tar") and not tools.engine.has_image(each)]:
        raise UnavailableError(
            f"{recipe.name}: {tools.engine.name} has no image {', '.join(absent)} (key kind.images); build it, or get "
            f"it with `{tools.engine.name} pull`"
        )
