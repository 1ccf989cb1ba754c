"""Tests that exhausted inotify limits are detected in the logs of nodes, with commands that exist on the nodes."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import pytest

from harness.backends.kind.nodes import naming_exhausted_limit
from harness.errors import UnavailableError

SAID = "E1121 watcher.go:7] failed to create watcher: too many open files\n"


class Node:
    """The shell of a node, whose logs are in the test's folder."""

    def __init__(self, logs: Path) -> None:
        self._logs = logs

    def execute(self, container: str, *command: str, text: str | None = None, seconds: float = 0) -> str:
        if container == "gone":
            raise UnavailableError("no such container")
        here = [each.replace("/var/log/pods", str(self._logs)) for each in command]
        said = subprocess.run(here, capture_output=True, text=True, timeout=10, check=True).stdout
        return said.replace(str(self._logs), "/var/log/pods")


def wait_in_vain(logs: Path) -> str:
    with pytest.raises(UnavailableError) as caught, naming_exhausted_limit(Node(logs), ["gone", "w1"]):
        raise UnavailableError("kube-proxy on w1 is awaited")
    return str(caught.value)


@pytest.mark.skipif(shutil.which("find") is None, reason="unavailable: find is not installed")
def test_log_that_names_the_limit_is_reported_with_the_remedy(tmp_path: Path) -> None:
    log = tmp_path / "kube-system_kube-proxy-x_1" / "kube-proxy" / "3.log"
    log.parent.mkdir(parents=True)
    log.write_text("I1121 server.go:1] begins\n" + SAID, encoding="utf-8")
    assert wait_in_vain(tmp_path) == (
        "kube-proxy on w1 is awaited\nPossible cause: kube-proxy of node w1 says 'too many open files': inotify "
        "instances have run out; `sudo sysctl fs.inotify.max_user_instances=512`"
    )


def test_error_is_unchanged_when_logs_name_no_limit(tmp_path: Path) -> None:
    (tmp_path / "0.log").write_text("I1121 server.go:1] begins\n", encoding="utf-8")
    assert wait_in_vain(tmp_path) == "kube-proxy on w1 is awaited"
