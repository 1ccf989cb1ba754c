"""Fetches a component into the cache, from an official release or from source."""

import re
import shutil
from collections.abc import Callable, Collection
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Protocol

from harness.binaries.cache import Cache, CacheEntry, Origin
from harness.binaries.component import Binary, version_of
from harness.binaries.progress import Reporter
from harness.binaries.release import Releases
from harness.binaries.versions import Version, VersionSpec
from harness.errors import UnavailableError
from harness.model.files import sha256_of

GROUP = "trafficdist.component_sources"
"""The entry point group for more component sources. Each entry point is a function of the number of parallel jobs."""

_MODULE = re.compile(r"(\S+@v\S+?)(?:: reading|,|$)")  # the module in an error message of the go command


class UndeliverableError(UnavailableError):
    """A source lists a version but cannot deliver it."""


@dataclass(frozen=True, slots=True)
class NewBinary:
    binary: Path
    at: str
    made_with: str = ""
    files: tuple[tuple[str, str], ...] = ()


class Source(Protocol):
    name: str

    def resolve(
        self, component: Binary, wanted: VersionSpec, watcher: Reporter, without: Collection[Version] = ()
    ) -> tuple[Version, Callable[[Path], NewBinary]]:
        """Return a version that matches `wanted` but is not in `without`, and a function that creates its binary."""


class ReleaseSource:
    name = "release"

    def __init__(self, releases: Releases) -> None:
        self._releases = releases

    def resolve(
        self,
        component: Binary,
        wanted: VersionSpec,
        watcher: Reporter,
        without: Collection[Version] = (),  # noqa: ARG002  official releases are complete
    ) -> tuple[Version, Callable[[Path], NewBinary]]:
        version = self._releases.resolve(component, wanted)

        def make(folder: Path) -> NewBinary:
            binary, url = self._releases.fetch(component, version, folder, watcher)
            return NewBinary(binary, url)

        return version, make


def fetch(
    component: Binary, wanted: VersionSpec, origin: Source, cache: Cache, watcher: Reporter, *, again: bool = False
) -> CacheEntry:
    """Fetch a component, unless `wanted` is an exact version in the cache. Raises `UsageError`, `UnavailableError`."""
    known = {} if again else {entry.version: entry for entry in cache.entries(component.name)}
    if wanted.exact in known:
        return known[wanted.exact]
    without: list[Version] = []
    while True:
        try:
            version, make = origin.resolve(component, wanted, watcher, without)
        except UnavailableError as error:
            best = next(iter(wanted.choose(known)), None)
            if best is None:
                raise
            why = str(error).partition("\n")[0]
            watcher.say(f"cannot check for a version newer than {component.name} {best}: {why}")
            return known[best]
        try:
            return _get(component, version, origin, make, cache=cache, watcher=watcher, again=again)
        except UndeliverableError as error:
            if wanted.exact is not None:
                raise
            watcher.say(f"{component.name} {version} is listed, but {_missing(error)}; trying an older one")
            without.append(version)


def _get(
    component: Binary,
    version: Version,
    origin: Source,
    make: Callable[[Path], NewBinary],
    *,
    cache: Cache,
    watcher: Reporter,
    again: bool,
) -> CacheEntry:
    def waiting() -> None:
        watcher.say(f"{component.name} {version}: waiting for another process to fetch it")

    with cache.locked(f"{component.name}-{version.tag}", waiting=waiting):
        there = cache.get(component.name, version)
        if there is not None and not again:
            return there
        folder = cache.workspace(component.name, version, origin.name)
        made = make(folder)
        made.binary.chmod(0o755)
        says = version_of(component, made.binary)
        if says != version:
            raise UnavailableError(f"{made.at} should be {component.name} {version}, but prints version {says}")
        now = datetime.now(UTC).isoformat(timespec="seconds")
        described = Origin(origin.name, made.at, sha256_of(made.binary), now, made.made_with)
        entry = cache.put(component, version, made.binary, described, dict(made.files))
        shutil.rmtree(folder, ignore_errors=True)
        return entry


def _missing(error: UndeliverableError) -> str:
    modules = list(dict.fromkeys(_MODULE.findall(str(error))))
    return f"{', '.join(modules) or 'a module that it needs'} is missing"
