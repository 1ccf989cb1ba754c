"""Tests `trafficdist components` in separate processes."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from harness.binaries.cache import Cache, Origin
from harness.binaries.component import component_named
from harness.binaries.fetching import ReleaseSource, fetch
from harness.binaries.versions import Version, parse_wanted
from harness.commands.main import main
from harness.model.files import sha256_of
from tests.harness.binaries.download_server import Mirror, ProgressRecorder, releases


@pytest.fixture(autouse=True)
def settings(monkeypatch: pytest.MonkeyPatch, cache: Cache, mirror: Mirror) -> None:
    """Use the mirror as the only source, and a separate cache for the test."""
    monkeypatch.setenv("TRAFFICDIST_CACHE", str(cache.folder))
    monkeypatch.setenv("TRAFFICDIST_MIRROR", mirror.url)


def components(*arguments: str) -> Result:
    return CliRunner().invoke(main, ["components", *arguments])


def test_fetch_prints_paths_and_path_finds_them(mirror: Mirror) -> None:
    for version in ("1.33.1", "1.34.2"):
        mirror.publish("kube-proxy", version)
    fetched = components("fetch", "kube-proxy", "1.33", "1.34")
    assert fetched.exit_code == 0
    assert [Path(line).parent.name for line in fetched.stdout.splitlines()] == ["v1.33.1", "v1.34.2"]
    assert "kube-proxy 1.34.2 is in the cache, from release" in fetched.stderr
    assert components("path", "kube-proxy", "1.34").stdout == fetched.stdout.splitlines()[1] + "\n"


def test_list_shows_what_is_there(mirror: Mirror) -> None:
    assert "No components in" in components("list").stdout
    mirror.publish("kube-proxy", "1.34.2")
    components("fetch", "kube-proxy")
    assert components("list").stdout.splitlines()[1].split()[:3] == ["kube-proxy", "1.34.2", "release"]
    [plain] = json.loads(components("list", "--format", "json").stdout)
    assert (plain["component"], plain["version"], plain["source"]) == ("kube-proxy", "1.34.2", "release")
    assert "No components in" in components("list", "etcd").stdout


def test_check_finds_a_binary_that_was_changed(mirror: Mirror) -> None:
    mirror.publish("kube-proxy", "1.34.2")
    binary = Path(components("fetch", "kube-proxy").stdout.strip())
    assert (components("check").exit_code, components("check").stdout[:3]) == (0, "ok ")
    binary.write_bytes(binary.read_bytes() + b"#")
    checked = components("check")
    assert checked.exit_code == 1
    assert "BAD  kube-proxy 1.34.2  has changed" in checked.stdout
    assert "fetch kube-proxy 1.34.2 --again --from release" in checked.stdout
    components("fetch", "kube-proxy", "1.34.2", "--again")
    assert components("check").exit_code == 0


def test_remove_takes_versions_or_all(mirror: Mirror, cache: Cache) -> None:
    for version in ("1.33.1", "1.34.1", "1.34.2"):
        mirror.publish("kube-proxy", version)
        components("fetch", "kube-proxy", version)
    assert "Removed kube-proxy 1.34.1, kube-proxy 1.34.2." in components("remove", "kube-proxy", "1.34").stdout
    assert components("remove").exit_code == 4
    assert "Removed kube-proxy 1.33.1." in components("remove", "--all").stdout
    assert cache.entries() == []


@pytest.mark.parametrize(
    ("arguments", "complaint"),
    [
        (("fetch", "kube-dns"), "expected one of kube-proxy"),
        (("fetch", "kube-proxy", "one"), "expected one like 1.34.2"),
        (("fetch", "kube-proxy", "1.99"), "there is no release of Kubernetes 1.99"),
        (("fetch", "kube-proxy", "--from", "source"), "set GOPROXY"),
        (("fetch", "kube-proxy", "--mirror", "ftp://x"), "begins with http://"),
    ],
)
def test_wrong_input_is_a_one_line_usage_error(arguments: tuple[str, ...], complaint: str) -> None:
    result = components(*arguments)
    assert result.exit_code == 4
    assert complaint in result.stderr
    assert "Traceback" not in result.stderr


def test_concurrent_processes_download_once(mirror: Mirror, cache: Cache) -> None:
    path = mirror.publish("kube-proxy", "1.34.2")
    command = [Path(sys.executable).with_name("trafficdist"), "components", "fetch", "kube-proxy", "1.34"]
    processes = [
        subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=os.environ.copy())
        for _ in range(3)
    ]
    printed = {process.communicate()[0] for process in processes}
    assert [process.returncode for process in processes] == [0, 0, 0]
    assert len(printed) == 1
    assert mirror.requests.count(path) == 1
    assert components("check").exit_code == 0


def test_second_process_waits_and_finds_the_file(mirror: Mirror, cache: Cache) -> None:
    path = mirror.publish("kube-proxy", "1.34.2")
    waits, version = threading.Event(), Version(1, 34, 2)

    class SecondFetch(ProgressRecorder):
        def say(self, text: str) -> None:
            self.lines.append(text)
            waits.set()

    second = SecondFetch()
    fetching = (component_named("kube-proxy"), parse_wanted("1.34"), ReleaseSource(releases(mirror)), cache)
    with ThreadPoolExecutor() as threads:
        with cache.locked(f"kube-proxy-{version.tag}", waiting=pytest.fail):
            later = threads.submit(fetch, *fetching, second)
            assert waits.wait(10)
            binary = cache.workspace("kube-proxy", version, "source") / "kube-proxy"
            binary.write_bytes(mirror.files[path])
            cache.put(component_named("kube-proxy"), version, binary, Origin("source", "here", sha256_of(binary), ""))
        assert later.result(10).origin.at == "here"
    assert second.lines == ["kube-proxy 1.34.2: waiting for another process to fetch it"]
    assert path not in mirror.requests
