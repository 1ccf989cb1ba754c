"""`exec` works with kubectl (over WebSockets) and with the official Python client."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from kubernetes import client, config, stream

from harness.eventually import eventually


def test_kubectl_that_uses_spdy_is_told_what_to_use(kubectl: Callable[..., Any]) -> None:
    done = kubectl("exec", "p", "--", "true", KUBECTL_REMOTE_COMMAND_WEBSOCKETS="false")
    assert done.returncode == 1
    assert "the server accepts WebSockets" in done.stderr


def test_kubectl_sees_both_outputs_and_the_exit_code(execute: Callable[..., Any]) -> None:
    done = execute("p", "--", "sh", "-c", "echo out; echo err >&2; exit 3")
    assert (done.stdout, done.returncode) == ("out\n", 3)
    assert done.stderr == "err\ncommand terminated with exit code 3\n"


def test_kubectl_gives_input_and_ends_it(execute: Callable[..., Any]) -> None:
    text = "".join(f"line {number}\n" for number in range(50_000))
    done = execute("-i", "p", "--", "cat", stdin=text)
    assert (done.returncode, done.stderr, done.stdout == text) == (0, "", True)


def test_program_that_reads_no_input_ends(execute: Callable[..., Any]) -> None:
    done = execute("-i", "p", "--", "true", stdin="x" * 3_000_000)
    assert (done.returncode, done.stdout) == (0, ""), done.stderr  # kubectl may report closed input


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (("p", "--", "no-such-program"), 'exec: "no-such-program": executable file not found in $PATH'),
        (("p", "-c", "other", "--", "true"), "container other is not valid for pod p"),
        (("gone", "--", "true"), "pod does not exist"),
        (("waiting", "--", "true"), "pod waiting does not have a host assigned"),
        (("nobody", "--", "true"), 'pods "nobody" not found'),
    ],
)
def test_program_that_cannot_run_is_reported(
    execute: Callable[..., Any], arguments: tuple[str, ...], said: str
) -> None:
    done = execute(*arguments)
    assert done.returncode == 1
    assert said in done.stderr


def test_nothing_runs_in_a_container_that_has_ended(execute: Callable[..., Any], container: Any) -> None:
    container.runs = False
    assert 'container not found ("c")' in execute("p", "--", "true").stderr


@pytest.fixture
def core(kubeconfig: Path) -> Iterator[Any]:
    with config.new_client_from_config(str(kubeconfig)) as connection:
        yield client.CoreV1Api(connection)


@pytest.fixture
def start(core: Any) -> Iterator[Callable[..., Any]]:
    """Start a program with the Python client, which uses protocol v4.channel.k8s.io."""
    every = []

    def start(*command: str, **options: Any) -> Any:
        asked = {"stdin": True, "stdout": True, "stderr": True, "tty": False, **options}
        made = stream.stream(
            core.connect_get_namespaced_pod_exec,
            "p",
            "default",
            command=list(command),
            _preload_content=False,
            **asked,
        )
        every.append(made)
        return made

    yield start
    for each in every:
        each.sock.shutdown()  # the client leaves it open when the server closes the WebSocket


def test_python_client_exchanges_input_and_output_with_a_program(start: Callable[..., Any]) -> None:
    program = start("sh", "-c", 'read line; echo "got $line"; echo bad >&2; exit 7')
    program.write_stdin("hello\n")
    program.run_forever(timeout=20)
    assert (program.read_stdout(), program.read_stderr(), program.returncode) == ("got hello\n", "bad\n", 7)


@pytest.mark.skipif(shutil.which("stty") is None, reason="unavailable: stty is not installed")
def test_terminal_has_the_size_requested_by_the_client(start: Callable[..., Any]) -> None:
    program = start("sh", "-c", "read line; stty size; test -t 0 && test -t 1 && test -t 2 && echo terminal", tty=True)
    program.write_channel(4, json.dumps({"Width": 123, "Height": 45}))
    program.write_stdin("go\n")
    program.run_forever(timeout=20)
    assert program.read_stdout().replace("\r", "").splitlines()[-2:] == ["45 123", "terminal"]
    assert program.returncode == 0


def test_program_ends_when_its_client_disconnects(start: Callable[..., Any], container: Any) -> None:
    program = start("sleep", "1000")
    eventually(lambda: container.programs, describe="the program")
    program.close()
    eventually(lambda: container.programs[0].poll() is not None, describe="its end")


def test_client_that_never_reads_does_not_block_others(
    start: Callable[..., Any], container: Any, execute: Callable[..., Any]
) -> None:
    start("sh", "-c", "while true; do echo xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx; done")
    eventually(lambda: container.programs, describe="the program")
    assert execute("p", "--", "echo", "still here").stdout == "still here\n"


def test_programs_end_with_the_kubelet(start: Callable[..., Any], container: Any, kubelet: Any) -> None:
    start("sleep", "1000")
    eventually(lambda: container.programs, describe="the program")
    kubelet.close()
    assert container.programs[0].poll() is not None
