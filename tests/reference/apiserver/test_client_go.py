"""The shared informers of client-go work with the server. Most controllers and proxies use these informers."""

from __future__ import annotations

import hashlib
import os
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import IO

import pytest

from reference.apiserver import ApiServer
from reference.apiserver.server import HttpServer
from tests.reference.api_server_calls import patched

MODULE = Path(__file__).parent / "client_go"

pytestmark = [
    pytest.mark.skipif(shutil.which("go") is None, reason="go is not installed"),
    pytest.mark.timeout(900),  # the first build compiles client-go
]


@pytest.fixture(scope="module")
def informer() -> Path:
    """Compile the program, and cache it until the files of the module change."""
    digest = hashlib.sha256(b"".join((MODULE / name).read_bytes() for name in ("go.mod", "go.sum", "main.go")))
    cache = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "trafficdist"
    binary = cache / f"informer-{digest.hexdigest()[:16]}"
    if not binary.exists():
        cache.mkdir(parents=True, exist_ok=True)
        fresh = cache / f"{binary.name}.{os.getpid()}"  # several workers may compile concurrently
        command = ["go", "build", "-buildvcs=false", "-o", str(fresh), "."]
        built = subprocess.run(command, cwd=MODULE, capture_output=True, text=True, check=False)
        if "dial tcp" in built.stderr or "lookup " in built.stderr:
            pytest.skip("the Go module proxy is unreachable")
        assert built.returncode == 0, built.stderr
        fresh.rename(binary)
    return binary


@pytest.fixture(params=["", "application/vnd.kubernetes.protobuf,application/json"], ids=["json", "protobuf-first"])
def output(request: pytest.FixtureRequest, api: ApiServer, informer: Path, kubeconfig: Path) -> Iterator[IO[str]]:
    """Yield the output of the informers, for an API server with a Node and a Service."""
    api.create("nodes", "", {"metadata": {"name": "a1"}})
    api.create("services", "default", {"metadata": {"name": "web"}, "spec": {"ports": [{"port": 80}]}})
    command = [str(informer), str(kubeconfig), *filter(None, [request.param])]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        yield process.stdout
        process.kill()


def until_synced(output: IO[str]) -> set[tuple[str, ...]]:
    lines = iter(output.readline, "SYNCED\n")
    return {tuple(each.split()[:3]) for each in lines}


def test_informers_see_existing_objects_and_changes(api: ApiServer, output: IO[str]) -> None:
    seen = until_synced(output)
    assert seen <= {("ADDED", "nodes", "a1"), ("ADDED", "services", "web")}  # handlers may run after the sync
    rest = {("ADDED", "nodes", "a1"), ("ADDED", "services", "web")} - seen
    assert {tuple(output.readline().split()[:3]) for _ in rest} == rest
    changed = patched(api, "nodes", "", "a1", {"metadata": {"labels": {"topology.kubernetes.io/zone": "b"}}})
    assert output.readline().split() == ["MODIFIED", "nodes", "a1", changed["metadata"]["resourceVersion"]]
    slice_ = {"metadata": {"name": "web-1"}, "addressType": "IPv4", "endpoints": [], "ports": []}
    api.create("endpointslices", "default", slice_)
    assert output.readline().split()[:3] == ["ADDED", "endpointslices", "web-1"]
    api.delete("services", "default", "web")
    assert output.readline().split()[:3] == ["DELETED", "services", "web"]


def test_informers_open_watches_that_begin_with_a_list(server: HttpServer, output: IO[str]) -> None:
    until_synced(output)
    queries = [each.query for each in server.requests() if each.path == "/api/v1/nodes"]
    assert "sendInitialEvents=true" in queries[0]
    assert not any("limit=" in each for each in queries)  # the informers never fell back to a list


def test_informers_reconnect_after_the_server_ends_watches(api: ApiServer, server: HttpServer, output: IO[str]) -> None:
    until_synced(output)
    server.end_watches()
    api.create("nodes", "", {"metadata": {"name": "b1"}})
    assert any(line.split()[:3] == ["ADDED", "nodes", "b1"] for line in output)
