"""Tests the error if this machine cannot create a kind cluster."""

from __future__ import annotations

from pathlib import Path

import pytest

from harness.backends.containers.engine import EngineFacts, find_engine
from harness.backends.kind.checks import check_engine, find_kind, notes, require
from harness.backends.kind.config import KindConfig
from harness.errors import UnavailableError
from harness.model.topology import THREE_ZONES
from tests.harness.backends.kind.conftest import Install

FACTS = EngineFacts("28.2.2", "/nowhere", 16_000_000_000, "6.8.0", "2")
WANTED = KindConfig(THREE_ZONES)


def facts(**given: object) -> EngineFacts:
    values = {name: getattr(FACTS, name) for name in ("version", "root", "memory", "kernel", "cgroup")}
    return EngineFacts(**(values | given))  # type: ignore[arg-type]


def test_missing_kind_is_named_with_its_fix(install: Install) -> None:
    with pytest.raises(UnavailableError, match="trafficdist components fetch kind"):
        find_kind()


def test_an_old_kind_is_refused_by_its_version(install: Install) -> None:
    install("kind", "echo kind version 0.17.0")
    with pytest.raises(UnavailableError, match=r"is kind 0.17.0, and 0.23.0 is the oldest"):
        find_kind()


def test_a_missing_engine_is_named(install: Install, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(UnavailableError, match="no docker or podman on the PATH"):
        find_engine()


def test_environment_selects_the_engine(install: Install, monkeypatch: pytest.MonkeyPatch) -> None:
    install("docker", "exit 0")
    podman = install("podman", "exit 0")
    assert find_engine().name == "docker"
    monkeypatch.setenv("KIND_EXPERIMENTAL_PROVIDER", "podman")
    assert (find_engine().path, find_engine().environment()) == (str(podman), {"KIND_EXPERIMENTAL_PROVIDER": "podman"})


@pytest.mark.parametrize(
    ("complaint", "says"),
    [
        ("Cannot connect to the Docker daemon at unix:///x.sock.", "start it .*DOCKER_HOST"),
        ("permission denied while trying to connect to unix:///x.sock", "join its group"),
        ("no such thing", "`docker info --format` failed: no such thing"),
    ],
)
def test_engine_without_answer_is_named_with_its_fix(complaint: str, says: str, install: Install) -> None:
    install("kind", "echo kind version 0.33.0")
    install("docker", f"echo '{complaint}' >&2; exit 1")
    with pytest.raises(UnavailableError, match=says):
        require(WANTED)


@pytest.mark.parametrize(
    ("given", "wanted", "says"),
    [
        ({"version": "19.03.1"}, WANTED, "docker 19.03.1 is too old"),
        ({"kernel": "5.10.0-28"}, KindConfig(THREE_ZONES, mode="nftables"), "needs Linux 5.13 or newer"),
        ({"cgroup": "1"}, WANTED, "do not start on cgroup v1"),
    ],
)
def test_impossible_cluster_is_refused(given: dict[str, object], wanted: KindConfig, says: str) -> None:
    with pytest.raises(UnavailableError, match=says):
        check_engine("docker", facts(**given), wanted)


def test_old_kubelets_accept_cgroup_v1() -> None:
    images = {"control-plane": "kindest/node:v1.34.3"}
    check_engine("docker", facts(cgroup="1"), KindConfig(THREE_ZONES, images=images))


def test_scarce_resources_are_noted_with_their_fix(tmp_path: Path) -> None:
    (tmp_path / "fs/inotify").mkdir(parents=True)
    (tmp_path / "fs/inotify/max_user_instances").write_text("128\n", encoding="ascii")
    memory, inotify = notes(facts(memory=2_000_000_000), 6, proc_sys=tmp_path)
    assert "there are 2.0 GB" in memory
    assert "sysctl fs.inotify.max_user_instances=512" in inotify
    assert notes(FACTS, 2, proc_sys=tmp_path) == []
