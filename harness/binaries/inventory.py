"""Fetches, lists, checks and removes cached binaries, for `trafficdist components`."""

import json
import shutil
import sys
from collections.abc import Sequence
from dataclasses import asdict
from typing import Any, Literal

from rich.console import Console

from harness.binaries.cache import Cache, CacheEntry
from harness.binaries.component import COMPONENTS, component_named, version_of
from harness.binaries.download import Fetcher
from harness.binaries.fetching import GROUP, ReleaseSource, fetch
from harness.binaries.progress import TerminalProgress
from harness.binaries.release import Releases
from harness.binaries.versions import parse_wanted
from harness.errors import UnavailableError, UsageError
from harness.model.entry_points import installed
from harness.model.evidence_text import as_table
from harness.model.files import sha256_of
from harness.model.neutral_output import terminal_below

From = Literal["release", "source"]


def fetch_all(
    names: Sequence[str], *, origin: From, cache: Cache, mirrors: Sequence[str] = (), jobs: int = 0, again: bool = False
) -> list[CacheEntry]:
    """Fetch versions `names[1:]` of component `names[0]`, with progress on stderr. Raises `UsageError`."""
    component = component_named(names[0])
    wishes = [parse_wanted(text) for text in names[1:] or ("",)]
    if mirrors and origin == "source":
        raise UsageError("--mirror is only for --from release; for --from source set GOPROXY")
    came_from = _compiler(jobs) if origin == "source" else ReleaseSource(Releases(mirrors, Fetcher()))
    found = []
    with TerminalProgress(Console(file=terminal_below(sys.stderr))) as terminal:
        for wanted in wishes:
            entry = fetch(component, wanted, came_from, cache, terminal, again=again)
            terminal.say(f"{entry.component} {entry.version} is in the cache, from {_source_of(entry)}: {entry.path}")
            found.append(entry)
    return found


def listing(cache: Cache, names: Sequence[str], form: Literal["table", "json"]) -> str:
    known = [component_named(name).name for name in names] or list(COMPONENTS)
    entries = [entry for entry in cache.entries() if entry.component in known]
    if form == "json":
        return json.dumps([_plain(entry) for entry in entries], indent=2)
    if not entries:
        return f"No components in {cache.folder}. Try `trafficdist components fetch kube-proxy --from source`."
    rows = [("COMPONENT", "VERSION", "FROM", "SIZE", "PATH")]
    rows += [(e.component, str(e.version), _source_of(e), f"{e.size / 1e6:.0f} MB", str(e.path)) for e in entries]
    return as_table(rows)


def offers(names: Sequence[str]) -> str:
    """Return a table of the versions that can be compiled. It omits the pre-releases of series with a final release."""
    compiler = _compiler()
    rows = [("COMPONENT", "SERIES", "VERSIONS")]
    for name in names or COMPONENTS:
        versions = compiler.available(component_named(name))
        final = {version.series for version in versions if not version.pre}
        series: dict[str, list[str]] = {}
        for version in versions:
            if not version.pre or version.series not in final:
                series.setdefault(version.series, []).append(str(version))
        rows += [(name, minor, " ".join(versions)) for minor, versions in series.items()]
    return as_table(rows)


def _compiler(jobs: int = 0) -> Any:
    for each in installed(GROUP, "source"):
        return each.load()(jobs)
    raise UnavailableError("only a checkout of trafficdist can compile components; use --from release")


def check(cache: Cache, name: str = "") -> tuple[str, bool]:
    """Check that binaries are unchanged and can run. Return a line for each binary, and whether all are intact."""
    lines = []
    for component in [component_named(name)] if name else COMPONENTS.values():
        for entry in cache.entries(component.name):
            fault = _trouble(entry)
            lines.append(f"{'BAD' if fault else 'ok '}  {entry.component} {entry.version}  {fault or entry.path}")
    text = "\n".join(lines) or f"No components in {cache.folder}."
    return text, not any(line.startswith("BAD") for line in lines)


def _trouble(entry: CacheEntry) -> str:
    source = _source_of(entry)
    again = f"repair it with `trafficdist components fetch {entry.component} {entry.version} --again --from {source}`"
    if entry.origin is not None and sha256_of(entry.path) != entry.origin.sha256:
        return f"has changed: its SHA-256 sum differs; {again}"
    try:
        says = version_of(component_named(entry.component), entry.path)
    except UnavailableError as error:
        return str(error)
    return "" if says == entry.version else f"prints version {says}; {again}"


def remove(cache: Cache, names: Sequence[str], *, everything: bool) -> str:
    """Remove the named versions of a component (all if none is named), or the entire cache."""
    if everything == bool(names):
        raise UsageError("name a component and its versions, or use --all")
    if everything:
        chosen = cache.entries()
        shutil.rmtree(cache.folder / "partial", ignore_errors=True)
    else:
        wishes = [parse_wanted(text) for text in names[1:]]
        entries = cache.entries(component_named(names[0]).name)
        chosen = [each for each in entries if not wishes or any(wish.allows(each.version) for wish in wishes)]
    for entry in chosen:
        cache.remove(entry)
    freed = ", ".join(f"{entry.component} {entry.version}" for entry in chosen)
    return f"Removed {freed}." if chosen else f"Nothing to remove in {cache.folder}."


def _source_of(entry: CacheEntry) -> str:
    return entry.origin.source if entry.origin is not None else "source"


def _plain(entry: CacheEntry) -> dict[str, Any]:
    described = asdict(entry.origin) if entry.origin else {"source": _source_of(entry)}
    place = {"component": entry.component, "version": str(entry.version), "path": str(entry.path), "size": entry.size}
    return {**place, **described}
