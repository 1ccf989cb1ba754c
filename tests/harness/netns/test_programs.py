"""Tests programs that run in a netns and have their own files."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from harness.errors import UnavailableError
from harness.netns import process
from harness.netns.fabric import Network
from harness.netns.namespace import Namespace
from harness.netns.process import run

RESOLV_CONF = "/etc/resolv.conf"


def test_program_runs_inside_the_netns(network: Network) -> None:
    for host in network.nodes.values():
        said = run(host.namespace, ["cat", "/proc/net/fib_trie"])
        assert host.addresses["IPv4"] in said.stdout


def test_program_sees_its_own_file_and_others_do_not(namespace: Namespace) -> None:
    before = Path(RESOLV_CONF).read_bytes()
    said = run(namespace, ["cat", RESOLV_CONF], files={RESOLV_CONF: "nameserver 192.0.2.1\n"})
    assert (said.returncode, said.stdout) == (0, "nameserver 192.0.2.1\n")
    assert Path(RESOLV_CONF).read_bytes() == before


def test_no_other_program_is_needed(namespace: Namespace, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", "")
    program = f"print(open({RESOLV_CONF!r}).read(), end='')"
    said = run(namespace, [sys.executable, "-c", program], files={RESOLV_CONF: "nameserver 192.0.2.1\n"})
    assert (said.returncode, said.stdout) == (0, "nameserver 192.0.2.1\n")


def test_failed_mount_is_reported(namespace: Namespace, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(process, "_FILES_LAUNCHER", process._FILES_LAUNCHER.replace("unshare(0x20000)", "unshare(-1)"))
    with pytest.raises(UnavailableError, match="cannot mount replacement files for a program: unshare: Invalid"):
        run(namespace, [sys.executable, "-c", ""], files={RESOLV_CONF: ""})


def test_exit_status_and_errors_come_from_the_program(namespace: Namespace) -> None:
    for files in (None, {RESOLV_CONF: ""}):
        ended = run(namespace, ["sh", "-c", "echo no >&2; exit 7"], files=files)
        assert (ended.returncode, ended.stderr) == (7, "no\n")


def test_missing_program_is_named(namespace: Namespace) -> None:
    with pytest.raises(UnavailableError, match="no-such-program is not installed"):
        run(namespace, ["no-such-program"])
    with pytest.raises(UnavailableError, match="cannot mount a replacement for /etc/none"):
        run(namespace, ["true"], files={"/etc/none": ""})


def test_programs_in_sbin_are_found_by_ordinary_users(
    namespace: Namespace, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    tool = tmp_path / "tool"
    tool.write_text("#!/bin/sh\necho found\n")
    tool.chmod(0o755)
    monkeypatch.setattr(process, "search_path", lambda: str(tmp_path))
    monkeypatch.setenv("PATH", "/nowhere")
    assert run(namespace, ["tool"]).stdout == "found\n"
