"""Tests that kubeconfig files are read as kubectl reads them."""

from __future__ import annotations

import base64
import contextlib
import json
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import trustme
import yaml
from click.testing import CliRunner, Result

from harness.api.client import Api
from harness.api.kubeconfig import Kubeconfig
from harness.backends.netns import NetnsBackend
from harness.commands.main import main
from harness.errors import UsageError
from harness.judging.exit_codes import ExitCode
from harness.model.manifests import service
from harness.model.topology import grid

Object = dict[str, Any]


@pytest.fixture(scope="module")
def server() -> Iterator[Object]:
    """Return the kubeconfig of an API server with a Service `web`."""
    with NetnsBackend(grid("one", {"a": 1})) as backend:
        backend.api.create("services", "default", service("web"))
        yield backend.kubeconfig()


def write(path: Path, *parts: str, of: Object, **fields: Any) -> str:
    """Write these parts of a kubeconfig, and additional fields, to a file. Return the name of the file."""
    path.write_text(
        yaml.safe_dump({"apiVersion": "v1", "kind": "Config", **{part: of[part] for part in parts}, **fields})
    )
    return str(path)


def explain(kubeconfig: str, *arguments: str) -> Result:
    return CliRunner().invoke(
        main, ["explain", "web", "--fail-on", "never", *arguments], env={"KUBECONFIG": kubeconfig, "COLUMNS": "160"}
    )


def test_several_files_are_merged(server: Object, tmp_path: Path) -> None:
    cluster = write(tmp_path / "cluster", "clusters", of=server)
    rest = write(tmp_path / "rest", "users", "contexts", "current-context", of=server)
    result = explain(f"{cluster}:{tmp_path / 'missing'}:{rest}")
    assert (result.exit_code, "Service default/web" in result.output) == (0, True), result.output


def test_certificate_paths_are_relative_to_their_kubeconfig(server: Object, tmp_path: Path) -> None:
    cluster = dict(server["clusters"][0]["cluster"])
    (tmp_path / "ca.pem").write_bytes(base64.b64decode(cluster.pop("certificate-authority-data")))
    cluster["certificate-authority"] = "ca.pem"
    clusters = [{"name": server["clusters"][0]["name"], "cluster": cluster}]
    result = explain(write(tmp_path / "config", "users", "contexts", "current-context", of=server, clusters=clusters))
    assert (result.exit_code, "Service default/web" in result.output) == (0, True), result.output


def test_missing_certificate_is_reported(server: Object, tmp_path: Path) -> None:
    clusters = [{"name": "trafficdist", "cluster": {"server": "https://x", "certificate-authority": "ca.pem"}}]
    files = write(tmp_path / "config", "users", "contexts", "current-context", of=server, clusters=clusters)
    result = explain(files)
    assert (result.exit_code, f"{tmp_path}/ca.pem" in result.output) == (ExitCode.USAGE, True), result.output


def test_unknown_context_lists_the_contexts_of_all_files(server: Object, tmp_path: Path) -> None:
    one = write(tmp_path / "one", "clusters", "users", "contexts", "current-context", of=server)
    two = write(tmp_path / "two", of=server, contexts=[{"name": "second", "context": {"cluster": "x", "user": "x"}}])
    result = explain(f"{one}:{two}", "--context", "third")
    assert result.exit_code == ExitCode.USAGE
    assert "has no context 'third'; its contexts are: trafficdist, second" in result.output


@pytest.mark.parametrize("other", ["", "second"])
def test_current_context_comes_from_the_first_file_that_sets_it(server: Object, tmp_path: Path, other: str) -> None:
    contexts = [{"name": "second", "context": {"cluster": "trafficdist", "user": "admin", "namespace": "shop"}}]
    none = write(tmp_path / "none", "clusters", "users", of=server, **{"current-context": ""})
    first = write(tmp_path / "first", "contexts", "current-context", of=server)
    second = write(tmp_path / "second", of=server, contexts=contexts, **{"current-context": other})
    read = Kubeconfig(f"{none}:{first}:{second}")
    assert (read.context, read.namespace) == ("trafficdist", "default")
    assert Kubeconfig(f"{none}:{first}:{second}", context="second").namespace == "shop"


def test_connection_uses_what_the_context_names(server: Object, tmp_path: Path) -> None:
    files = write(tmp_path / "config", "clusters", "users", "contexts", of=server)
    api = Api(Kubeconfig(files, context="trafficdist"))
    try:
        assert api.get("services", "default", "web")["metadata"]["name"] == "web"
    finally:
        api.close()


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("", "is empty"),
        ("apiVersion: [", "is not YAML"),
        ("users: [{user: {token: 2020-99-99}}]", "cannot be read: month must be in 1..12"),
        ("[]", "is not a kubeconfig"),
        ("contexts: 1", "is not a kubeconfig"),
        ("contexts: [{context: {}}]", "is not a kubeconfig"),
        ("kind: Config", "has no current context; choose one"),
    ],
)
def test_invalid_kubeconfig_is_reported(tmp_path: Path, text: str, said: str) -> None:
    (tmp_path / "config").write_text(text)
    with pytest.raises(UsageError, match=f"kubeconfig {tmp_path}/config: .*{said}.*--(kubeconfig|context)"):
        Kubeconfig(str(tmp_path / "config"))


def test_missing_files_are_reported_with_the_remedy(tmp_path: Path) -> None:
    result = explain(f"{tmp_path}/one:{tmp_path}/two")
    assert result.exit_code == ExitCode.USAGE
    assert f"kubeconfig {tmp_path}/one:{tmp_path}/two: no such file; choose one with --kubeconfig" in result.output


def test_folder_is_refused_as_kubeconfig(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="cannot be read: Is a directory; choose another file with --kubeconfig"):
        Kubeconfig(str(tmp_path))


def plugin(tmp_path: Path, **status: str) -> Object:
    """Return a user whose credentials come from an exec plugin."""
    said = {"apiVersion": "client.authentication.k8s.io/v1", "kind": "ExecCredential", "status": status}
    (tmp_path / "said").write_text(json.dumps(said))
    return {"exec": {"apiVersion": said["apiVersion"], "command": "cat", "args": [str(tmp_path / "said")]}}


@pytest.mark.parametrize("printed", [False, True], ids=["in-the-file", "printed-by-a-program"])
def test_client_key_is_not_written_to_the_temp_folder(
    server: Object, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, printed: bool
) -> None:
    monkeypatch.setattr(tempfile, "tempdir", "/proc/nowhere")  # writing there fails
    token = server["users"][0]["user"]["token"]
    issued = trustme.CA().issue_cert("alice")
    key, certificate = issued.private_key_pem.bytes().decode(), issued.cert_chain_pems[0].bytes().decode()
    if printed:  # without a token, so the request is unauthenticated
        user = plugin(tmp_path, clientKeyData=key, clientCertificateData=certificate)
    else:
        data = {"client-key-data": key, "client-certificate-data": certificate}
        user = {"token": token, **{name: base64.b64encode(text.encode()).decode() for name, text in data.items()}}
    users = [{"name": server["users"][0]["name"], "user": user}]
    file = write(tmp_path / "config", "clusters", "contexts", "current-context", of=server, users=users)
    with contextlib.closing(Api(Kubeconfig(file))) as api:
        assert Path(api._pool.connection_pool_kw["key_file"]).read_text() == key
        assert api.request("GET", "/api/v1/namespaces/default/services/web").code == (401 if printed else 200)


def test_api_server_key_is_not_written_to_the_temp_folder(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tempfile, "tempdir", "/proc/nowhere")
    with NetnsBackend(grid("one", {"a": 1})) as backend:
        assert backend.api.list("services") is not None
