"""Tests that every command has the same exit code and the same one-line `error: …` for the same cause."""

from __future__ import annotations

import contextlib
import os
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml
from click.testing import CliRunner

from harness.commands.main import main
from harness.control_planes.embedded import EmbeddedControlPlane
from tests.harness.conftest import suite
from trafficdist.__main__ import main as command

KUBECONFIG_COMMANDS = ("run --backend kubeconfig --kubeconfig {}", "explain web --kubeconfig {}",
                       "doctor --kubeconfig {}", "cleanup --kubeconfig {}")  # fmt: skip
FILE_COMMANDS = (
    *KUBECONFIG_COMMANDS,
    "run --options-file {}",
    "run --proxy {}",
    "cluster up --proxy {}",
    "proxy check {}",
    "compare {}",
    "compare --changes {} {}",
)


def _with(file: str, commands: tuple[str, ...] = FILE_COMMANDS) -> tuple[str, ...]:
    return tuple(command.replace("{}", file) for command in commands)


CAUSES: dict[str, tuple[int, tuple[str, ...]]] = {
    "unknown name": (4, (
        "run --run-test KEP-1/pases --suite pack",
        "run --run-test KEP-1/pases --suite pack -n 2",
        "run KEP-1/pases --suite pack",
        "run nobody --suite pack",
        "run --suite pack -- --td-supported-features Roting",
        "run --mutant nobody",
        "run --proxy nobody",
        "proxy check nobody",
        "proxy check installed",
        "proxy init new.txt",
        "run --topology nobody",
        "run --profile nobody",
        "run --suite nobody",
        "run --no-such-option",
        "run -- --no-such-option",
        "list KEP-1/pases --suite pack",
        "list --mutants nobody --suite pack",
        "list --suite nobody",
        "doctor --profile nobody",
        "doctor --topology nobody",
        "cleanup --run nobody!",
        "components fetch nobody",
        "components list nobody",
        "components check nobody",
        "components path nobody",
        "components remove nobody",
        "cluster up --topology nobody",
        "cluster exec --name nobody a1 -- true",
        "cluster kubeconfig nobody",
        "completion nobody",
        "nobody",
    )),
    "missing file": (4, _with("none.yaml")),
    "unreadable file": (4, (*_with("binary.yaml"), "compare pack/test_sample.py")),
    "invalid YAML": (4, _with("broken.yaml")),
    "something else in the file": (4, (*_with("other.yaml"), "proxy init other.yaml")),
    "unreachable cluster": (12, _with("unreachable.yaml", KUBECONFIG_COMMANDS)),
    "no permission": (12, _with("stranger.yaml", KUBECONFIG_COMMANDS)),
    "missing binary": (12, (
        "run --proxy kube-proxy:1.34 --suite pack",
        "run --control-plane binaries:1.34 --suite pack",
        "cluster up --proxy kube-proxy:1.34",
        "proxy check kube-proxy:1.34",
        "cluster up --controller kube-controller-manager:1.34",
        "components path kube-proxy 1.34",
    )),
    "nothing selected": (5, (
        "list KEP-1/* --level MAY --suite pack",
        "run --run-test KEP-1/* --profile dns --suite pack",
        "run --run-test KEP-1/* --profile dns --suite pack -n 2",
        "run KEP-1/* --profile dns --suite pack",
    )),
}  # fmt: skip

SAID_ELSEWHERE = (  # these commands report the error in the table of checks or in the summary of the run
    "doctor",
    "run --run-test KEP-1/* --profile dns",
    "run KEP-1/* --profile dns",
)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """Return a working folder with files of all kinds. Its cluster grants no permissions."""
    here = tmp_path_factory.mktemp("here")
    (here / "pack").mkdir()
    (here / "pack" / "test_sample.py").write_text(suite("passes"))
    (here / "binary.yaml").write_bytes(b"\xff\xfe\x00")
    (here / "broken.yaml").write_text("a: [1\nb: }")
    (here / "other.yaml").write_text("fruit: apples\n")
    plane = EmbeddedControlPlane()
    plane.start()
    kubeconfig = plane.kubeconfig()
    _write(here / "stranger.yaml", kubeconfig, token="nobody")
    _write(here / "unreachable.yaml", kubeconfig, server="https://127.0.0.1:9")
    yield here
    plane.stop()


def _write(path: Path, kubeconfig: dict[str, Any], *, token: str = "", server: str = "") -> None:
    (cluster,), (user,) = kubeconfig["clusters"], kubeconfig["users"]
    changed = {
        **kubeconfig,
        "clusters": [{**cluster, "cluster": {**cluster["cluster"], **({"server": server} if server else {})}}],
        "users": [{**user, "user": {"token": token or user["user"]["token"]}}],
    }
    path.write_text(yaml.safe_dump(changed))


CASES = [pytest.param(cause, line, id=f"{cause}: {line}") for cause, (_, lines) in CAUSES.items() for line in lines]


@pytest.mark.parametrize(("cause", "line"), CASES)
def test_cause_has_its_exit_code_and_one_prefix(
    folder: Path, cause: str, line: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(folder)
    for name in [name for name in os.environ if name.startswith(("TRAFFICDIST_", "KUBE"))]:
        monkeypatch.delenv(name)
    monkeypatch.setenv("TRAFFICDIST_CACHE", str(tmp_path))
    monkeypatch.setenv("XDG_RUNTIME_DIR", str(tmp_path))

    code, output, errors = (_in_a_process if line.startswith("run") else _here)(line.split())

    expected, _ = CAUSES[cause]
    assert code == expected, output + errors
    assert "Traceback" not in errors
    if not line.startswith(SAID_ELSEWHERE):
        errors = re.sub(r"^cannot list kind clusters: .*\n", "", errors)  # Docker is installed but not running
        assert errors.startswith("error: ")
        assert "certifiable" not in output


def _here(arguments: list[str]) -> tuple[int, str, str]:
    done = CliRunner().invoke(main, arguments)
    return done.exit_code, done.stdout, done.stderr


def _in_a_process(arguments: list[str]) -> tuple[int, str, str]:
    """Run the command in a new process. pytest cannot run twice in one process."""
    command = [sys.executable, "-c", "from harness.commands.main import main; main()", *arguments]
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=100)
    return done.returncode, done.stdout, done.stderr


def test_process_of_the_command_alone_ignores_signals_while_python_exits(monkeypatch: pytest.MonkeyPatch) -> None:
    seen = []

    def interrupts(*, alone: bool) -> contextlib.AbstractContextManager[None]:
        seen.append(alone)
        return contextlib.nullcontext()

    monkeypatch.setattr("harness.commands.cli.as_interrupts", interrupts)
    monkeypatch.setattr(sys, "argv", ["trafficdist", "--version"])
    with pytest.raises(SystemExit):
        command()
    CliRunner().invoke(main, ["--version"])
    assert seen == [True, False]
