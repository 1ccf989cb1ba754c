"""Build or find a node image for `trafficdist kind-image`."""

import shutil
from pathlib import Path

from harness.backends.containers.engine import find_engine
from harness.binaries.cache import Cache, explained_errors
from harness.binaries.versions import Wanted, parse_version
from harness.binaries.watching import Watcher
from harness.errors import UnavailableError
from tools.compiling.source import FromSource
from tools.node_image import contents
from tools.node_image.build import REPOSITORY, Maker
from tools.node_image.gathering import Gatherer, Recipe

_RUNTIME = "runc-without-sys-resource"


def make(recipe: Recipe, *, cache: Cache, watcher: Watcher, jobs: int = 0) -> str:
    """Return the name of the image. Build the image unless it exists. Raises `UsageError`, `UnavailableError`."""
    contents.check(recipe.kubernetes)
    engine = find_engine()
    engine.facts()  # check the engine before hours of work
    gathered = Gatherer(FromSource(jobs), cache, watcher, files()).gather(recipe)
    name = Maker(engine, cache, watcher, files()).make(gathered)
    for note in gathered.notes:
        watcher.say(f"note: {note}")
    return name


def find_image(wanted: Wanted) -> str:
    """Return the name of the latest image in the engine for this release. Raises `UnavailableError`."""
    tags = find_engine().ask("image", "ls", "--format", "{{.Tag}}", REPOSITORY).split()
    chosen = wanted.choose(version for tag in tags if (version := parse_version(tag)))
    if not chosen:
        raise UnavailableError(
            f"the engine has no node image of Kubernetes {wanted}: make kind-image KUBERNETES={wanted}"
        )
    return f"{REPOSITORY}:{chosen[0].tag}"


def put_runtime(folder: Path) -> str:
    """Copy the runtime for engines without CAP_SYS_RESOURCE into a folder; return the command that starts an engine."""
    target = folder.absolute() / _RUNTIME
    with explained_errors(target):
        target.parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(files() / _RUNTIME, target)
        target.chmod(0o755)
    name = _RUNTIME.removeprefix("runc-")
    return f"start the engine with: dockerd --add-runtime {name}={target} --default-runtime {name}"


def files() -> Path:
    """Return the folder kind-configs/node-image of the checkout."""
    return Path(__file__).parents[2] / "kind-configs" / "node-image"
