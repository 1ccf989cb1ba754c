"""Finds the installed binary of a component, without network: in KUBEBUILDER_ASSETS, then in the cache."""

from __future__ import annotations

from pathlib import Path

from harness.binaries import assets
from harness.binaries.cache import Cache, Entry
from harness.binaries.component import component_named
from harness.binaries.versions import parse_wanted
from harness.errors import UnavailableError


def find(component: str, version: str = "", *, cache: Cache | None = None) -> Path:
    """Return the path of a component's binary.

    `version` is "1.34.10", "1.34" for the newest installed patch, or "" for the one in KUBEBUILDER_ASSETS, else the
    newest installed one. Raises `UsageError` for a name or version that is none, and `UnavailableError` with the
    command that fetches it.
    """
    return find_entry(component, version, cache=cache).path


def find_entry(component: str, version: str = "", *, cache: Cache | None = None) -> Entry:
    """Return a component's binary with its version and origin; see `find`."""
    known = component_named(component)
    wanted = parse_wanted(version)
    given = assets.entry(known)
    if given is not None and (not version or wanted.allows(given.version)):
        return given
    there = {entry.version: entry for entry in (cache or Cache()).entries(component)}
    chosen = wanted.choose(there)
    if chosen:
        return there[chosen[0]]
    others = [*([f"{given.version} in {assets.ENVIRONMENT}"] if given else []), *map(str, there)]
    asked = f"{component} {wanted}" if version else component
    instead = f" (there is {', '.join(others)})" if others else ""
    raise UnavailableError(
        f"{asked} is not there{instead}; get it with "
        f"`trafficdist components fetch {asked} --from source`, or --from release"
    )
