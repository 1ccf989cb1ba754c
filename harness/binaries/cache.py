"""The cache of binaries: a folder that all runs of a user share, outside any repository.

    $TRAFFICDIST_CACHE, or $XDG_CACHE_HOME/trafficdist, or ~/.cache/trafficdist
        components/kube-proxy/v1.34.10/kube-proxy      the binary
                                       origin.json     its origin and SHA-256
                                       go.mod go.sum   its modules, if it was compiled
        partial/                                       unfinished downloads and compilations

Binaries are stored atomically, so a version is cached as soon as its binary exists. Only one process at a time fetches
a version. Other processes wait, and then find the version in the cache.
"""

import contextlib
import fcntl
import json
import os
import shutil
from collections.abc import Callable, Iterator, Mapping
from dataclasses import asdict, dataclass
from pathlib import Path

from harness.binaries.component import COMPONENTS, Binary, component_named
from harness.binaries.versions import Version, parse_version, parse_wanted
from harness.errors import UnavailableError

ENVIRONMENT = "TRAFFICDIST_CACHE"


@dataclass(frozen=True, slots=True)
class Origin:
    """The origin of a binary. `source` is "release" or "source". `at` is a URL, or a module with its version."""

    source: str
    at: str
    sha256: str
    when: str
    made_with: str = ""


@dataclass(frozen=True, slots=True)
class CacheEntry:
    component: str
    version: Version
    path: Path
    origin: Origin | None = None

    @property
    def size(self) -> int:
        return self.path.stat().st_size


def default_folder() -> Path:
    chosen = os.environ.get(ENVIRONMENT)
    if chosen:
        return Path(chosen).expanduser().absolute()
    base = os.environ.get("XDG_CACHE_HOME") or ""  # the XDG specification ignores relative paths
    return (Path(base) if base.startswith("/") else Path.home() / ".cache") / "trafficdist"


class Cache:
    def __init__(self, folder: Path | None = None) -> None:
        self.folder = folder or default_folder()

    def entries(self, component: str = "") -> list[CacheEntry]:
        """Return all binaries, ordered by component (as in `COMPONENTS`) and version."""
        found: list[CacheEntry] = []
        for name in [component] if component else COMPONENTS:
            versions = sorted(filter(None, (parse_version(each.name) for each in self._home(name).glob("v*"))))
            found += filter(None, (self.get(name, version) for version in versions))
        return found

    def get(self, component: str, version: Version) -> CacheEntry | None:
        folder = self._home(component) / version.tag
        binary = folder / component
        return CacheEntry(component, version, binary, _read_origin(folder)) if binary.is_file() else None

    def put(
        self, component: Binary, version: Version, binary: Path, origin: Origin, files: Mapping[str, str] | None = None
    ) -> CacheEntry:
        """Move a binary from `workspace` into the cache atomically. `files` maps names of other files to contents."""
        folder = self._home(component.name) / version.tag
        with explained_errors(folder):
            folder.mkdir(parents=True, exist_ok=True)
            for name, text in {**(files or {}), "origin.json": json.dumps(asdict(origin), indent=2) + "\n"}.items():
                scratch = folder / f".{name}"
                scratch.write_text(text, encoding="utf-8")
                _settle(scratch)
                scratch.rename(folder / name)
            binary.chmod(0o755)
            _settle(binary)
            binary.rename(folder / component.name)
            _settle(folder)
        return CacheEntry(component.name, version, folder / component.name, origin)

    def remove(self, entry: CacheEntry) -> None:
        """Remove a binary and its files. Processes that run the binary are not affected."""
        entry.path.unlink(missing_ok=True)
        shutil.rmtree(entry.path.parent, ignore_errors=True)

    def workspace(self, component: str, version: Version, kind: str) -> Path:
        """Return a work folder, which is the same for equal arguments. The caller must hold the version's lock."""
        folder = self.folder / "partial" / f"{component}-{version.tag}-{kind}"
        with explained_errors(folder):
            folder.mkdir(parents=True, exist_ok=True)
        return folder

    @contextlib.contextmanager
    def locked(self, what: str, *, waiting: Callable[[], None]) -> Iterator[None]:
        """Hold the lock named `what` during the block. Call `waiting` first if another process has the lock."""
        path = self.folder / "locks" / what
        with explained_errors(path):
            path.parent.mkdir(parents=True, exist_ok=True)
            lock = path.open("w")
        with lock:
            try:
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                waiting()
                fcntl.flock(lock, fcntl.LOCK_EX)
            yield

    def _home(self, component: str) -> Path:
        return self.folder / "components" / component


def find(component: str, version: str = "", *, cache: Cache | None = None) -> Path:
    """Return the path of a binary. Version "1.34" means the latest installed patch of 1.34, and "" the latest of all.
    Raises `UsageError` for an invalid name or version, and `UnavailableError` if the binary is not installed.
    """
    return find_entry(component, version, cache=cache).path


def find_entry(component: str, version: str = "", *, cache: Cache | None = None) -> CacheEntry:
    """Find a binary like `find`, and return it with its version and origin."""
    component_named(component)  # raises `UsageError`
    wanted = parse_wanted(version)
    there = {entry.version: entry for entry in (cache or Cache()).entries(component)}
    chosen = wanted.choose(there)
    if chosen:
        return there[chosen[0]]
    asked = f"{component} {wanted}" if version else component
    instead = f" (installed: {', '.join(map(str, there))})" if there else ""
    raise UnavailableError(
        f"{asked} is not installed{instead}; get it with "
        f"`trafficdist components fetch {asked} --from source`, or --from release"
    )


@contextlib.contextmanager
def explained_errors(place: Path) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        fix = f"free some space, or choose another folder with --cache or {ENVIRONMENT}"
        raise UnavailableError(f"cannot write {error.filename or place}: {error.strerror}; {fix}") from None


def _read_origin(folder: Path) -> Origin | None:
    try:
        return Origin(**json.loads((folder / "origin.json").read_text(encoding="utf-8")))
    except (OSError, ValueError, TypeError):
        return None


def _settle(path: Path) -> None:
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
