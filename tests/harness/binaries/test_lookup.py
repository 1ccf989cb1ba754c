"""Tests where binaries are found, and which version is chosen for a request."""

from __future__ import annotations

from pathlib import Path

import pytest

from harness.binaries import Cache, Version, find, find_entry
from harness.binaries.cache import Origin, default_folder
from harness.binaries.component import component_named
from harness.errors import UnavailableError, UsageError
from harness.model.files import sha256_of
from tests.harness.binaries.download_server import script


def put(cache: Cache, component: str, *versions: str) -> None:
    """Put components into a cache in the same way as a download."""
    for text in versions:
        version = Version(*map(int, text.split(".")))
        binary = cache.workspace(component, version, "release") / component
        binary.write_bytes(script(text, size=200))
        cache.put(component_named(component), version, binary, Origin("release", "http://x", sha256_of(binary), ""))


@pytest.mark.parametrize(("wanted", "found"), [("1.34", "1.34.10"), ("1.34.2", "1.34.2"), ("", "1.35.0")])
def test_newest_matching_version_is_found(wanted: str, found: str, cache: Cache) -> None:
    put(cache, "kube-proxy", "1.34.2", "1.34.10", "1.35.0")
    assert str(find_entry("kube-proxy", wanted, cache=cache).version) == found


def test_missing_version_is_reported_with_its_fetch_command(cache: Cache) -> None:
    put(cache, "kube-proxy", "1.33.1")
    remedy = (
        r"1\.34 is not installed \(installed: 1\.33\.1\).*`trafficdist components fetch kube-proxy 1\.34 --from source`"
    )
    with pytest.raises(UnavailableError, match=remedy):
        find("kube-proxy", "1.34", cache=cache)
    with pytest.raises(UnavailableError, match=r"^etcd is not installed; .*fetch etcd --from source"):
        find("etcd", cache=cache)


def test_unknown_component_is_refused(cache: Cache) -> None:
    with pytest.raises(
        UsageError, match="kube-proxy, kube-controller-manager, kube-apiserver, kube-scheduler, kubelet"
    ):
        find("kube-dns", cache=cache)


def test_cache_location_comes_from_the_environment(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.delenv("XDG_CACHE_HOME", raising=False)
    assert default_folder() == tmp_path / ".cache/trafficdist"
    monkeypatch.setenv("XDG_CACHE_HOME", "relative/does/not/count")
    assert default_folder() == tmp_path / ".cache/trafficdist"
    monkeypatch.setenv("XDG_CACHE_HOME", "/somewhere")
    assert default_folder() == Path("/somewhere/trafficdist")
    monkeypatch.setenv("TRAFFICDIST_CACHE", "~/else")
    assert default_folder() == tmp_path / "else"


def test_folder_without_its_binary_does_not_count_as_a_version(cache: Cache) -> None:
    put(cache, "kube-proxy", "1.34.2", "1.34.3")
    find("kube-proxy", "1.34.3", cache=cache).unlink()
    assert [str(each.version) for each in cache.entries()] == ["1.34.2"]


def test_unwritable_cache_is_reported_with_the_fix(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(UnavailableError, match=r"Not a directory.*--cache or TRAFFICDIST_CACHE"):
        put(Cache(tmp_path / "file"), "kube-proxy", "1.34.2")
