"""Tests official binaries from local servers, which have the layout of dl.k8s.io and of etcd's releases."""

from __future__ import annotations

import json
import subprocess

import pytest

from harness.binaries.cache import Cache, CacheEntry
from harness.binaries.component import component_named
from harness.binaries.fetching import ReleaseSource, fetch
from harness.binaries.release import Releases
from harness.binaries.versions import parse_wanted
from harness.errors import UnavailableError, UsageError
from tests.harness.binaries.download_server import Mirror, ProgressRecorder, releases, script


def get(component: str, version: str, origin: Releases, cache: Cache, *, again: bool = False) -> CacheEntry:
    return fetch(
        component_named(component), parse_wanted(version), ReleaseSource(origin), cache, ProgressRecorder(), again=again
    )


def test_downloaded_component_runs_and_reports_its_source(mirror: Mirror, cache: Cache) -> None:
    path = mirror.publish("kube-proxy", "1.34.2")
    entry = get("kube-proxy", "1.34.2", releases(mirror), cache)
    assert subprocess.check_output([entry.path, "--version"], text=True) == "Kubernetes v1.34.2\n"
    assert entry.origin is not None
    assert (entry.origin.source, entry.origin.at) == ("release", f"{mirror.url}{path}")
    assert cache.entries() == [entry]
    assert list((cache.folder / "partial").iterdir()) == []


@pytest.mark.parametrize("wanted", ["1.34", "", "newest"])
def test_newest_patch_comes_from_the_publisher(wanted: str, mirror: Mirror, cache: Cache) -> None:
    mirror.publish("kube-proxy", "1.34.10")
    assert str(get("kube-proxy", wanted, releases(mirror), cache).version) == "1.34.10"


def test_etcd_is_extracted_from_its_archive(mirror: Mirror, cache: Cache) -> None:
    mirror.publish_etcd("3.6.4")
    tags = [{"tag_name": "v3.7.0-rc.0"}, {"tag_name": "v3.6.4"}, {"tag_name": "v3.5.9"}]
    mirror.files["/listing"] = json.dumps(tags).encode()
    entry = get("etcd", "", releases(mirror), cache)
    assert str(entry.version) == "3.6.4"
    assert subprocess.check_output([entry.path, "--version"], text=True) == "etcd Version: 3.6.4\n"


def test_kind_is_a_bare_binary_with_a_checksum_file(mirror: Mirror, cache: Cache) -> None:
    path = mirror.publish_kind("0.33.0")
    mirror.files["/listing"] = json.dumps([{"tag_name": "v0.33.0"}, {"tag_name": "v0.34.0-alpha"}]).encode()
    entry = get("kind", "", releases(mirror), cache)
    assert entry.origin is not None
    assert (str(entry.version), entry.origin.at) == ("0.33.0", f"{mirror.url}{path}")


def test_component_that_must_be_compiled_is_reported(mirror: Mirror, cache: Cache) -> None:
    with pytest.raises(
        UsageError, match="official binaries of coredns are not available: compile it with --from source"
    ):
        get("coredns", "1.15.0", releases(mirror), cache)


def test_cached_version_is_not_downloaded_again(mirror: Mirror, cache: Cache) -> None:
    path = mirror.publish("kube-proxy", "1.34.2")
    get("kube-proxy", "1.34.2", releases(mirror), cache)
    get("kube-proxy", "1.34", releases(mirror), cache)
    assert mirror.requests.count(path) == 1
    get("kube-proxy", "1.34.2", releases(mirror), cache, again=True)
    assert mirror.requests.count(path) == 2


def test_cached_version_is_used_when_the_newest_is_unknown(mirror: Mirror, closed_port: str, cache: Cache) -> None:
    mirror.publish("kube-proxy", "1.34.2")
    entry = get("kube-proxy", "1.34", releases(mirror), cache)
    assert get("kube-proxy", "1.34", releases(closed_port), cache) == entry
    with pytest.raises(UnavailableError, match="refused"):
        get("kube-proxy", "1.33", releases(closed_port), cache)


def test_unknown_version_lists_the_existing_ones(mirror: Mirror, cache: Cache) -> None:
    mirror.publish("kube-proxy", "1.34.2")
    with pytest.raises(UsageError, match=r"no release 1\.34\.9 of kube-proxy .*the newest of 1\.34 is 1\.34\.2"):
        get("kube-proxy", "1.34.9", releases(mirror), cache)
    with pytest.raises(UsageError, match=r"no release of Kubernetes 1\.99; the newest of all is 1\.34\.2"):
        get("kube-proxy", "1.99", releases(mirror), cache)
    assert cache.entries() == []


def test_wrong_checksum_leaves_the_cache_empty(mirror: Mirror, cache: Cache) -> None:
    mirror.publish("kube-proxy", "1.34.2", sha256="0" * 64)
    with pytest.raises(UnavailableError, match="differs from the publisher's file"):
        get("kube-proxy", "1.34.2", releases(mirror), cache)
    assert cache.entries() == []


def test_html_page_is_not_accepted_as_a_checksum(mirror: Mirror, cache: Cache) -> None:
    mirror.publish("kube-proxy", "1.34.2", sha256="<html>log in first</html>")
    with pytest.raises(UnavailableError, match="no SHA-256 sum"):
        get("kube-proxy", "1.34.2", releases(mirror), cache)


@pytest.mark.parametrize(
    ("content", "complaint"),
    [
        (script("1.34.1"), r"should be kube-proxy 1\.34\.2, but prints version 1\.34\.1"),
        (b"\x7fELF for another machine", "does not run on this machine"),
        (b"#!/bin/sh\necho hello\n", "does not print a version of kube-proxy; it prints: hello"),
    ],
)
def test_a_binary_that_is_not_that_version_is_not_kept(
    content: bytes, complaint: str, mirror: Mirror, cache: Cache
) -> None:
    mirror.publish("kube-proxy", "1.34.2", content)
    with pytest.raises(UnavailableError, match=complaint):
        get("kube-proxy", "1.34.2", releases(mirror), cache)
    assert cache.entries() == []


def test_unreachable_mirror_is_skipped(mirror: Mirror, closed_port: str, cache: Cache) -> None:
    mirror.publish("kube-proxy", "1.34.2")
    entry = get("kube-proxy", "1.34", releases(closed_port, mirror), cache)
    assert entry.origin is not None
    assert entry.origin.at.startswith(mirror.url)


def test_unreachable_servers_are_listed_with_the_fix(closed_port: str, cache: Cache) -> None:
    with pytest.raises(UnavailableError, match=r"stable-1\.34\.txt.*refused\n.*--from source"):
        get("kube-proxy", "1.34", releases(closed_port), cache)


def test_checksum_of_another_file_is_ignored(mirror: Mirror, cache: Cache) -> None:
    mirror.publish_etcd("3.6.4")
    mirror.files["/download/v3.6.4/SHA256SUMS"] = f"{'0' * 64}  other.zip\n".encode()
    with pytest.raises(UnavailableError, match="no SHA-256 sum of etcd-v3"):
        get("etcd", "3.6.4", releases(mirror), cache)


def test_component_compiled_around_packages_is_not_downloaded(mirror: Mirror, cache: Cache) -> None:
    with pytest.raises(UsageError, match="official binaries of e2e are not available: compile it with --from source"):
        get("e2e", "1.37.2", releases(mirror), cache)
