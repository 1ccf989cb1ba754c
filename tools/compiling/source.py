"""Compile a component from its official Go modules.

Go and its module proxy do the work: the checksum database verifies sources, and the compiler's cache makes the second
component of a release fast. The binary is pure Go (CGO_ENABLED=0), so it also runs in any container.
"""

import json
import shutil
import tempfile
from collections.abc import Collection, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from harness.binaries.cache import said_plainly
from harness.binaries.component import Binary
from harness.binaries.fetching import UndeliverableError
from harness.binaries.versions import Version, Wanted, parse_version
from harness.binaries.watching import Watcher
from harness.errors import HarnessError, UnavailableError, UsageError
from tools.compiling import modules
from tools.compiling.go import Go

_TRIES = 8  # versions to try if a proxy lists more versions than it serves
_ROOM = 1_000_000_000  # free bytes; a first compilation takes about 1.5 GB in GOCACHE and 0.7 GB in GOMODCACHE


@dataclass(frozen=True, slots=True)
class SourceRelease:
    """A version whose sources have been downloaded."""

    version: Version
    go_mod: Path
    commit: str = ""
    time: str = ""


def available(component: Binary, go: Go) -> list[Version]:
    """Return the versions that the module proxy lists, the oldest first.

    The list of k8s.io/kubernetes may be incomplete. Kubernetes' staging modules have a tag for each release and are
    used more often, so their lists are longer. Both lists are read.
    """
    found = _listed(component.module, go)
    if component.staging:
        found |= {modules.release_version(each) for each in _listed(component.staging, go) if each.major == 0}
    return sorted(found)


def _listed(module: str, go: Go) -> set[Version]:
    answer = go.ask_json("list", "-m", "-versions", "-json", module, folder=Path("/"))
    return {version for text in answer.get("Versions") or () if (version := parse_version(text[1:]))}


def resolve(
    component: Binary, wanted: Wanted, go: Go, watcher: Watcher, *, without: Collection[Version] = ()
) -> SourceRelease:
    """Return the latest matching version with downloadable sources. Raises `UsageError` if no version matches.

    `without` lists versions that failed because another module was missing.
    """
    if wanted.exact is not None:
        try:
            return _sources(component, wanted.exact, go)
        except UndeliverableError as error:
            raise _no_such(component, wanted, available(component, go), str(error)) from None
    listed = available(component, go)
    for version in [each for each in wanted.choose(listed) if each not in without][:_TRIES]:
        try:
            return _sources(component, version, go)
        except UndeliverableError as error:
            why = str(error).rpartition(": ")[2].strip()
            watcher.say(f"{component.name} {version} is listed, but missing: {why}")
    raise _no_such(component, wanted, listed)


def _sources(component: Binary, version: Version, go: Go) -> SourceRelease:
    got = go.ask_json("mod", "download", "-json", f"{component.module}@{version.tag}", folder=Path("/"))
    information: dict[str, Any] = json.loads(Path(got["Info"]).read_text(encoding="utf-8"))
    origin = got.get("Origin") or information.get("Origin") or {}
    return SourceRelease(version, Path(got["GoMod"]), origin.get("Hash", ""), information.get("Time", ""))


def _no_such(component: Binary, wanted: Wanted, listed: list[Version], why: str = "") -> HarnessError:
    series = wanted.series or (wanted.exact.series if wanted.exact else "")
    near = [str(each) for each in listed if each.series == series and not each.pre]
    text = f"the Go module proxy has no {component.name} {wanted}"
    if near:
        text += f"; of {series} it has {', '.join(near)}"
    else:
        newest = {each.series: each for each in listed if not each.pre}
        text += f"; it has {', '.join(map(str, newest.values()))} (the newest of each minor version)"
    return UsageError(f"{text}\n{why}".rstrip())


@contextmanager
def _module(folder: Path, component: Binary, release: SourceRelease, go: Go) -> Iterator[Path]:
    described = go.ask_json("mod", "edit", "-json", str(release.go_mod), folder=Path("/"))
    with tempfile.TemporaryDirectory(dir=folder, prefix="module-") as name:
        place = Path(name)
        (place / "go.mod").write_text(modules.go_mod(component, release.version, described), encoding="utf-8")
        (place / "components.go").write_text(modules.go_file(component), encoding="utf-8")
        yield place


def compile_binary(
    component: Binary, release: SourceRelease, go: Go, folder: Path, watcher: Watcher
) -> tuple[Path, dict[str, str]]:
    """Compile a binary in `folder`. Returns the paths of the binary, go.mod and go.sum. Raises `UnavailableError`."""
    _check_room(go, folder)
    flags = modules.build_flags(component, release.version, commit=release.commit, time=release.time)
    binary = folder / component.name
    with said_plainly(folder), _module(folder, component, release, go) as module:
        watcher.say(f"{component.name} {release.version}: downloading the modules that it needs")
        stale = go.ask(
            "list", *flags, "-deps", "-f", "{{if .Stale}}{{.ImportPath}}{{end}}", component.package, folder=module
        ).split()
        watcher.begin(f"{component.name} {release.version}: compiling", len(stale) + 1, unit="packages")
        jobs = ["-p", str(go.jobs)] if go.jobs else []
        go.follow(
            "build", *flags, *jobs, "-v", "-o", str(binary), component.package,
            folder=module, line=lambda package: watcher.advance(1, package),
        )  # fmt: skip
        watcher.end()
        files = [module / name for name in ("go.mod", "go.sum")]  # go.sum is missing if the module has no dependencies
        made_from = {file.name: file.read_text(encoding="utf-8") for file in files if file.exists()}
    return binary, made_from


def _check_room(go: Go, folder: Path) -> None:
    """Raise `UnavailableError` if a disk is too full, before a long compilation."""
    places = {"the cache": str(folder)}
    for name in ("GOCACHE", "GOMODCACHE"):
        places[name] = go.ask("env", name, folder=Path("/")).strip()
    for name, place in places.items():
        there = next((each for each in (Path(place), *Path(place).parents) if each.exists()), Path("/"))
        free = shutil.disk_usage(there).free
        if free < _ROOM:
            raise UnavailableError(
                f"{free / 1e6:.0f} MB are free for {name} ({place}), but compiling needs {_ROOM / 1e6:.0f} MB; "
                f"free some space, or set {'--cache' if name == 'the cache' else name} to another disk"
            )
