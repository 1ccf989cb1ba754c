"""Compile components from their official Go modules: `trafficdist components fetch --from source`."""

import functools
import json
import shutil
import tempfile
from collections.abc import Callable, Collection, Mapping
from pathlib import Path
from typing import Any

from harness.binaries.cache import explained_errors
from harness.binaries.component import Binary
from harness.binaries.fetching import NewBinary, UndeliverableError
from harness.binaries.progress import Reporter
from harness.binaries.versions import Version, VersionSpec, parse_version
from harness.errors import UnavailableError, UsageError
from tools.compiling import modules
from tools.compiling.go import Go, find_go

_TRIES = 8  # versions to try if a proxy lists more versions than it serves
_FREE_BYTES = 1_000_000_000  # a first compilation takes about 1.5 GB in GOCACHE and 0.7 GB in GOMODCACHE


class FromSource:
    """Compiles components on this machine. See `harness.binaries.fetching.Source`."""

    name = "source"

    def __init__(self, jobs: int = 0) -> None:
        self._jobs = jobs

    @functools.cached_property
    def go(self) -> Go:
        """The go command. Raises `UnavailableError` if it is not installed."""
        return find_go(jobs=self._jobs)

    def available(self, component: Binary) -> list[Version]:
        """Return the versions that the module proxy lists, the oldest first.

        The list of k8s.io/kubernetes may be incomplete, so the longer list of its staging modules is also read.
        """
        found = self._listed(component.module)
        if component.staging:
            found |= {modules.release_version(each) for each in self._listed(component.staging) if each.major == 0}
        return sorted(found)

    def _listed(self, module: str) -> set[Version]:
        answer = self.go.run_json("list", "-m", "-versions", "-json", module, folder=Path("/"))
        return {version for text in answer.get("Versions") or () if (version := parse_version(text[1:]))}

    def resolve(
        self, component: Binary, wanted: VersionSpec, watcher: Reporter, without: Collection[Version] = ()
    ) -> tuple[Version, Callable[[Path], NewBinary]]:
        if wanted.exact is None:
            listed = self.available(component)
            version = next((each for each in wanted.choose(listed)[:_TRIES] if each not in without), None)
            if version is None:
                raise _not_listed(component, wanted, listed)
        else:
            version = wanted.exact

        def make(folder: Path) -> NewBinary:
            try:
                downloaded = self.download(component, version)
            except UndeliverableError as error:
                if wanted.exact is None:
                    raise
                raise _not_listed(component, wanted, self.available(component), str(error)) from None
            return self._compile(component, version, downloaded, folder, watcher)

        return version, make

    def download(self, component: Binary, version: Version) -> Any:
        """Download the sources. Return the output of `go mod download -json`. Raises `UnavailableError`."""
        return self.go.run_json("mod", "download", "-json", f"{component.module}@{version.tag}", folder=Path("/"))

    def _compile(
        self, component: Binary, version: Version, downloaded: Mapping[str, Any], folder: Path, watcher: Reporter
    ) -> NewBinary:
        self._check_disk(folder)
        name = f"{component.name} {version}"
        info = json.loads(Path(downloaded["Info"]).read_text(encoding="utf-8"))
        origin = downloaded.get("Origin") or info.get("Origin") or {}
        flags = modules.build_flags(component, version, commit=origin.get("Hash", ""), time=info.get("Time", ""))
        described = self.go.run_json("mod", "edit", "-json", downloaded["GoMod"], folder=Path("/"))
        binary = folder / component.name
        with explained_errors(folder), tempfile.TemporaryDirectory(dir=folder, prefix="module-") as place:
            module = Path(place)
            (module / "go.mod").write_text(modules.go_mod(component, version, described), encoding="utf-8")
            (module / "components.go").write_text(modules.go_file(component), encoding="utf-8")
            watcher.say(f"{name}: downloading the modules that it needs")
            stale = self.go.run(
                "list", *flags, "-deps", "-f", "{{if .Stale}}{{.ImportPath}}{{end}}", component.package, folder=module
            ).split()
            watcher.begin(f"{name}: compiling", len(stale) + 1, unit="packages")
            jobs = ["-p", str(self.go.jobs)] if self.go.jobs else []
            self.go.follow(
                "build", *flags, *jobs, "-v", "-o", str(binary), component.package,
                folder=module, line=lambda package: watcher.advance(1, package),
            )  # fmt: skip
            watcher.end()
            files = [module / each for each in ("go.mod", "go.sum")]  # a module without dependencies has no go.sum
            beside = tuple((each.name, each.read_text(encoding="utf-8")) for each in files if each.exists())
        return NewBinary(binary, f"{component.module}@{version.tag}", self.go.version, beside)

    def _check_disk(self, folder: Path) -> None:
        places = {"the cache": str(folder)}
        for name in ("GOCACHE", "GOMODCACHE"):
            places[name] = self.go.run("env", name, folder=Path("/")).strip()
        for name, place in places.items():
            existing = next(each for each in (Path(place), *Path(place).parents) if each.exists())
            free = shutil.disk_usage(existing).free
            if free < _FREE_BYTES:
                raise UnavailableError(
                    f"{free / 1e6:.0f} MB are free for {name} ({place}), but compiling needs {_FREE_BYTES / 1e6:.0f} "
                    f"MB; free some space, or set {'--cache' if name == 'the cache' else name} to another disk"
                )


def _not_listed(component: Binary, wanted: VersionSpec, listed: list[Version], why: str = "") -> UsageError:
    series = wanted.series or (wanted.exact.series if wanted.exact else "")
    near = [str(each) for each in listed if each.series == series and not each.pre]
    text = f"the Go module proxy has no {component.name} {wanted}"
    if near:
        text += f"; of {series} it has {', '.join(near)}"
    else:
        latest = {each.series: each for each in listed if not each.pre}
        text += f"; it has {', '.join(map(str, latest.values()))} (the latest of each minor version)"
    return UsageError(f"{text}\n{why}".rstrip())
