"""Create a node image for `trafficdist kind-image`, or find an image in the engine."""

import shutil
import sys
from pathlib import Path

from harness.backends.containers.engine import find_engine
from harness.binaries.cache import Cache, said_plainly
from harness.binaries.versions import parse_version
from harness.binaries.watching import Watcher
from harness.errors import UnavailableError
from tools.compiling.go import find_go
from tools.node_image import contents
from tools.node_image.build import REPOSITORY, Maker
from tools.node_image.gathering import Gatherer, Recipe

_FOLDER = Path("kind-configs") / "node-image"
_RUNTIME = "runc-without-sys-resource"


def make(recipe: Recipe, *, cache: Cache, watcher: Watcher, jobs: int = 0) -> str:
    """Return the name of the image. Create the image unless it exists. Raises `UsageError`, `UnavailableError`."""
    contents.check(recipe.kubernetes)
    engine = find_engine()
    engine.facts()  # check the engine before hours of work
    gathered = Gatherer(find_go(jobs=jobs), cache, watcher, files()).gather(recipe)
    name = Maker(engine, cache, watcher, files()).make(gathered)
    for note in gathered.notes:
        watcher.say(f"note: {note}")
    return name


def there(recipe: Recipe) -> str:
    """Return the name of the latest image in the engine for this release. Raises `UnavailableError`."""
    listed = find_engine().ask("image", "ls", "--format", "{{.Tag}}", REPOSITORY).split()
    versions = [version for tag in listed if (version := parse_version(tag))]
    chosen = recipe.kubernetes.choose(versions)
    if not chosen:
        wanted = recipe.kubernetes
        raise UnavailableError(
            f"the engine has no node image of Kubernetes {wanted}: make kind-image KUBERNETES={wanted}"
        )
    return f"{REPOSITORY}:{chosen[0].tag}"


def put_runtime(folder: Path) -> str:
    """Copy the runtime for engines without CAP_SYS_RESOURCE into a folder; return the command that starts an engine."""
    target = folder.absolute() / _RUNTIME
    with said_plainly(target):
        target.parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(files() / _RUNTIME, target)
        target.chmod(0o755)
    name = _RUNTIME.removeprefix("runc-")
    return f"start the engine with: dockerd --add-runtime {name}={target} --default-runtime {name}"


def files() -> Path:
    """Return the folder kind-configs/node-image in the checkout or in the installed package."""
    for root in (Path(__file__).parents[4], Path(sys.prefix) / "share" / "trafficdist"):
        if (root / _FOLDER / "setup").exists():
            return root / _FOLDER
    raise UnavailableError(f"there is no folder {_FOLDER}: it is part of a checkout and of the package")
