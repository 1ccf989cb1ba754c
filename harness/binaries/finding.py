"""Find the installed binary of a component without the network: first in KUBEBUILDER_ASSETS, then in the cache.

KUBEBUILDER_ASSETS names a folder with the binaries that envtest's setup installed. Each binary is run once to find its
version, and again when the file changes.
"""

from __future__ import annotations

import os
from functools import cache as cached
from pathlib import Path

from harness.binaries.cache import Cache, Entry
from harness.binaries.component import Binary, component_named, version_of
from harness.binaries.versions import Version, parse_wanted
from harness.errors import UnavailableError

ASSETS = "KUBEBUILDER_ASSETS"


def find(component: str, version: str = "", *, cache: Cache | None = None) -> Path:
    """Return the path of a component's binary.

    `version` is "1.34.10", "1.34" for the newest installed patch, or "" for the binary in KUBEBUILDER_ASSETS, else the
    newest installed one. Raises `UsageError` for an invalid name or version, and `UnavailableError` with the command
    that fetches it.
    """
    return find_entry(component, version, cache=cache).path


def find_entry(component: str, version: str = "", *, cache: Cache | None = None) -> Entry:
    """Return a component's binary with its version and origin; see `find`."""
    known = component_named(component)
    wanted = parse_wanted(version)
    given = asset(known)
    if given is not None and (not version or wanted.allows(given.version)):
        return given
    there = {entry.version: entry for entry in (cache or Cache()).entries(component)}
    chosen = wanted.choose(there)
    if chosen:
        return there[chosen[0]]
    others = [*([f"{given.version} in {ASSETS}"] if given else []), *map(str, there)]
    asked = f"{component} {wanted}" if version else component
    instead = f" (installed: {', '.join(others)})" if others else ""
    raise UnavailableError(
        f"{asked} is not installed{instead}; get it with "
        f"`trafficdist components fetch {asked} --from source`, or --from release"
    )


def assets_folder() -> Path | None:
    """Return the folder that KUBEBUILDER_ASSETS names, or None."""
    named = os.environ.get(ASSETS)
    return Path(named).expanduser().absolute() if named else None


def asset(component: Binary) -> Entry | None:
    """Return the component in KUBEBUILDER_ASSETS, or None. Raises `UnavailableError` if the binary shows no version."""
    place = assets_folder()
    binary = place / component.name if place else None
    if binary is None or not binary.is_file():
        return None
    status = binary.stat()
    return Entry(component.name, _version(component, binary, status.st_mtime_ns, status.st_size), binary)


@cached
def _version(component: Binary, binary: Path, changed: int, size: int) -> Version:  # noqa: ARG001  the cache's key
    return version_of(component, binary)
