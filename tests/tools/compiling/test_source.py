"""Compile components with the real Go compiler. A folder serves as module proxy."""

from __future__ import annotations

import json
import shutil
import subprocess
import zipfile
from collections.abc import Mapping
from pathlib import Path
from uuid import uuid4

import pytest

from harness.binaries.cache import Cache
from harness.binaries.component import component_named
from harness.binaries.fetching import UndeliverableError, fetch
from harness.binaries.versions import parse_wanted
from harness.errors import UnavailableError, UsageError
from tests.harness.binaries.download_server import ProgressRecorder
from tools.compiling import source
from tools.compiling.go import error_of, find_go
from tools.compiling.source import FromSource

KUBE_PROXY = component_named("kube-proxy")
BASE = "k8s.io/component-base"
MAIN = f"""package main
import ("os"; "{BASE}/version")
func main() {{ os.Stdout.WriteString("Kubernetes " + version.Get() + "\\n") }}
"""
VERSION = 'package version\nvar gitVersion = "v0.0.0"\nfunc Get() string { return gitVersion }\n'

needs_go = pytest.mark.skipif(shutil.which("go") is None, reason="unavailable: Go is not installed")


class ModuleProxyFolder:
    """A folder with the layout of a module proxy."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def publish(self, module: str, version: str, go_mod: str, files: Mapping[str, str], *, listed: bool = True) -> None:
        """Publish a version of a module."""
        place = self.folder / module / "@v"
        place.mkdir(parents=True, exist_ok=True)
        (place / f"{version}.info").write_text(json.dumps({"Version": version, "Time": "2026-01-02T03:04:05Z"}))
        (place / f"{version}.mod").write_text(go_mod)
        with zipfile.ZipFile(place / f"{version}.zip", "w") as packed:
            for name, text in {"go.mod": go_mod, **files}.items():
                packed.writestr(f"{module}@{version}/{name}", text)
        if listed:
            with (place / "list").open("a") as lines:
                lines.write(f"{version}\n")

    def kubernetes(self, patch: int, *, go: str = "1.21", listed: bool = True) -> None:
        """Publish Kubernetes 1.34.<patch>, and its staging module."""
        needs = f"require {BASE} v0.0.0\nreplace {BASE} => ./staging/src/{BASE}\n"
        own = f"module k8s.io/kubernetes\ngo {go}\n{needs}"
        self.publish("k8s.io/kubernetes", f"v1.34.{patch}", own, {"cmd/kube-proxy/proxy.go": MAIN}, listed=listed)
        self.publish(
            BASE, f"v0.34.{patch}", f"module {BASE}\ngo 1.21\n", {"version/version.go": f"{VERSION}// {uuid4()}"}
        )


@pytest.fixture
def modules(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> ModuleProxyFolder:
    """Return an empty module proxy. The module cache is empty too, and the compiler's cache is that of the user."""
    served = ModuleProxyFolder(tmp_path / "proxy")
    settings = {
        "GOPROXY": f"file://{served.folder}",
        "GOSUMDB": "off",
        "GOFLAGS": "-modcacherw",
        "GOTOOLCHAIN": "local",
    }
    for name, value in {**settings, "GOMODCACHE": str(tmp_path / "modules")}.items():
        monkeypatch.setenv(name, value)
    return served


@needs_go
def test_component_is_compiled_with_its_staging_modules_and_reports_its_version(
    modules: ModuleProxyFolder, cache: Cache
) -> None:
    modules.kubernetes(2)
    heard = ProgressRecorder()
    entry = fetch(KUBE_PROXY, parse_wanted("1.34"), FromSource(), cache, heard)
    assert subprocess.check_output([entry.path, "--version"], text=True) == "Kubernetes v1.34.2\n"
    assert entry.origin is not None
    assert (entry.origin.at, entry.origin.made_with) == ("k8s.io/kubernetes@v1.34.2", find_go().version)
    assert f"{BASE} => {BASE} v0.34.2" in (entry.path.parent / "go.mod").read_text()
    assert f"{BASE} v0.34.2 h1:" in (entry.path.parent / "go.sum").read_text()
    assert heard.totals[0] >= 3  # two packages that are not in the compiler's cache, and linking


@needs_go
def test_minor_version_is_its_latest_patch_even_if_only_staging_modules_list_it(modules: ModuleProxyFolder) -> None:
    modules.kubernetes(9)
    modules.kubernetes(10, listed=False)
    for wanted in ("1.34", ""):
        assert str(FromSource().resolve(KUBE_PROXY, parse_wanted(wanted), ProgressRecorder())[0]) == "1.34.10"


@needs_go
def test_patch_that_is_listed_but_not_served_is_skipped_with_a_message(
    modules: ModuleProxyFolder, cache: Cache
) -> None:
    modules.kubernetes(9)
    modules.publish(BASE, "v0.34.10", f"module {BASE}\n", {})
    heard = ProgressRecorder()
    assert str(fetch(KUBE_PROXY, parse_wanted("1.34"), FromSource(), cache, heard).version) == "1.34.9"
    said = "kube-proxy 1.34.10 is listed, but k8s.io/kubernetes@v1.34.10 is missing; trying an older one"
    assert heard.lines[0] == said


@needs_go
def test_few_versions_are_tried_if_the_proxy_does_not_serve_them(modules: ModuleProxyFolder, cache: Cache) -> None:
    modules.kubernetes(0)
    for patch in range(1, 12):
        modules.publish(BASE, f"v0.34.{patch}", f"module {BASE}\n", {})
    heard = ProgressRecorder()
    with pytest.raises(UsageError, match=r"no kube-proxy 1\.34; of 1\.34 it has"):
        fetch(KUBE_PROXY, parse_wanted("1.34"), FromSource(), cache, heard)
    assert [line.split()[1] for line in heard.lines] == [f"1.34.{patch}" for patch in range(11, 3, -1)]


@needs_go
def test_patch_without_all_staging_modules_is_replaced_by_an_older_one(
    modules: ModuleProxyFolder, cache: Cache
) -> None:
    modules.kubernetes(9)
    modules.kubernetes(10)
    (modules.folder / BASE / "@v" / "v0.34.10.zip").unlink()
    heard = ProgressRecorder()
    assert str(fetch(KUBE_PROXY, parse_wanted("1.34"), FromSource(), cache, heard).version) == "1.34.9"
    said = f"kube-proxy 1.34.10 is listed, but {BASE}@v0.34.10 is missing; trying an older one"
    assert said in heard.lines
    with pytest.raises(UnavailableError, match=r"v0\.34\.10"):
        fetch(KUBE_PROXY, parse_wanted("1.34.10"), FromSource(), cache, heard)


@needs_go
def test_unknown_version_lists_the_existing_ones(modules: ModuleProxyFolder, cache: Cache) -> None:
    modules.kubernetes(2)
    modules.kubernetes(3)
    with pytest.raises(UsageError, match=r"no kube-proxy 1\.34\.7; of 1\.34 it has 1\.34\.2, 1\.34\.3"):
        fetch(KUBE_PROXY, parse_wanted("1.34.7"), FromSource(), cache, ProgressRecorder())
    with pytest.raises(UsageError, match=r"no kube-proxy 1\.99; it has 1\.34\.3 \(the latest of each"):
        fetch(KUBE_PROXY, parse_wanted("1.99"), FromSource(), cache, ProgressRecorder())


@needs_go
def test_old_go_is_reported_with_a_solution(modules: ModuleProxyFolder, cache: Cache) -> None:
    modules.kubernetes(2, go="1.99")
    with pytest.raises(UnavailableError, match=r"Go 1\.99 or newer is needed.*GOTOOLCHAIN=auto"):
        fetch(KUBE_PROXY, parse_wanted("1.34"), FromSource(), cache, ProgressRecorder())


@needs_go
@pytest.mark.parametrize("wanted", ["1.34", "1.34.2"])
def test_unreachable_module_proxy_is_reported_with_a_solution(
    modules: ModuleProxyFolder, cache: Cache, closed_port: str, monkeypatch: pytest.MonkeyPatch, wanted: str
) -> None:
    monkeypatch.setenv("GOPROXY", closed_port)
    with pytest.raises(UnavailableError, match=r"module proxy cannot be reached.*GOPROXY"):
        fetch(KUBE_PROXY, parse_wanted(wanted), FromSource(), cache, ProgressRecorder())


@needs_go
def test_failed_compilation_leaves_only_its_error(modules: ModuleProxyFolder, cache: Cache) -> None:
    modules.kubernetes(2)
    modules.publish(
        "k8s.io/kubernetes", "v1.34.3", "module k8s.io/kubernetes\ngo 1.21\n", {"cmd/kube-proxy/p.go": "oops"}
    )
    with pytest.raises(UnavailableError, match="expected 'package'"):
        fetch(KUBE_PROXY, parse_wanted("1.34.3"), FromSource(), cache, ProgressRecorder())
    assert cache.entries() == []
    assert list((cache.folder / "partial").rglob("module-*")) == []


def test_missing_go_is_reported_with_a_solution(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(UnavailableError, match=r"compiling needs `go` on the PATH.*--from release"):
        find_go()


def test_full_disk_is_reported_with_a_solution() -> None:
    words = "k8s.io/api/core/v1: write $WORK/b001/_pkg_.a: no space left on device"
    assert "GOCACHE" in str(error_of(words, ["build"]))


@needs_go
def test_low_disk_space_is_reported_before_compiling(
    monkeypatch: pytest.MonkeyPatch, modules: ModuleProxyFolder, cache: Cache
) -> None:
    monkeypatch.setattr(source, "_FREE_BYTES", 1 << 62)
    modules.kubernetes(2)
    with pytest.raises(UnavailableError, match=r"are free for the cache .* free some space"):
        fetch(KUBE_PROXY, parse_wanted("1.34"), FromSource(), cache, ProgressRecorder())


def test_modules_that_the_proxy_lacks_are_named_once() -> None:
    line = (
        "x.go:3:2: {0}@v1.0.1: reading https://proxy.example/{0}/@v/v1.0.1.zip: 403 Forbidden\n\tserver response: No.\n"
    )
    words = line.format("sigs.example/diff") * 3 + line.format("sigs.example/wrap")
    error = error_of(words, ["build"])
    assert isinstance(error, UndeliverableError)
    assert str(error) == "the Go module proxy does not have sigs.example/diff@v1.0.1, sigs.example/wrap@v1.0.1"
