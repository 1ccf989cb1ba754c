"""Finds the binary of a component for those that run it, without network: in KUBEBUILDER_ASSETS, then in the cache."""

from __future__ import annotations

from pathlib import Path

from harness.binaries import assets
from harness.binaries.cache import Cache, Entry
from harness.binaries.component import component_named
from harness.binaries.versions import parse_wanted
from harness.errors import UnavailableError


def find(component: str, version: str = "", *, cache: Cache | None = None) -> Path:
    """The binary of a component.

    `version` is "1.34.10", "1.34" for the newest patch that is there, or nothing for whatever is in KUBEBUILDER_ASSETS,
    else the newest that is there. Raises `UsageError` for a name or version that cannot be one, and `UnavailableError`,
    which names the command that gets it.
    """
    return find_entry(component, version, cache=cache).path


def find_entry(component: str, version: str = "", *, cache: Cache | None = None) -> Entry:
    """The same, with its version and where it is from."""
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
