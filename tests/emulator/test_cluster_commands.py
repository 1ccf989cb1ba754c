"""A cluster in the background can boot, run commands, be listed, and stop. A killed cluster leaves nothing behind."""

from __future__ import annotations

import os
import select
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import closing
from functools import partial
from pathlib import Path
from typing import Any

import pytest
import yaml
from click.testing import CliRunner

from emulator import cluster_control, cluster_state
from emulator.kubelet.images import EMULATED_AGNHOST
from explain.service import Source
from harness.api.client import Api
from harness.checks import program_requirements
from harness.commands.main import main
from harness.errors import UnavailableError, UsageError
from harness.eventually import eventually
from harness.model.manifests import pod

ASK = "import urllib.request as r; print(r.urlopen('http://{clusterIP}:{port}/hostname', timeout=10).read().decode())"


@pytest.fixture(autouse=True)
def runtime(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """Use the test's folder for the state of clusters. Stop all clusters after the test."""
    monkeypatch.setenv("XDG_RUNTIME_DIR", str(tmp_path))
    yield tmp_path / "trafficdist"
    for state in cluster_state.running():
        cluster_control.down(state.name)


def test_cluster_and_explain_follow_the_same_reading() -> None:
    reading = Source().follow
    assert cluster_control._settings({}).release.follows == reading == "released"
    assert cluster_control._settings({"follow": "kep"}).release.follows == "kep"


def enter(place: str, *command: str, name: str = "default") -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [
            sys.executable,
            "-c",
            "from harness.commands.main import main; main()",
            "cluster",
            "exec",
            "--name",
            name,
            place,
            "--",
            *command,
        ],
        capture_output=True,
        text=True,
        check=False,
        timeout=60,
    )


def test_cluster_can_be_started_listed_entered_and_stopped(runtime: Path) -> None:
    said = cluster_control.up("default", "a=1,b=1", "IPv4,IPv6")
    assert "a1 (a) b1 (b)" in said
    assert "default" in cluster_control.listing()
    (service,) = [state.service for state in cluster_state.running()]
    answered = enter("web-b1", sys.executable, "-c", ASK.format(**service))
    assert "web-b1" in answered.stdout, answered.stderr
    assert cluster_control.down("default") == "Cluster default is down."
    assert cluster_control.listing().startswith("No cluster is running.")
    assert list(runtime.iterdir()) == []


def test_killed_cluster_leaves_nothing_after_down(runtime: Path) -> None:
    cluster_control.up("one", "a=1", "IPv4")
    (state,) = cluster_state.running()
    os.kill(state.pid, signal.SIGKILL)
    eventually(lambda: not state.alive, describe="its end")
    assert cluster_control.down("one") == "Cluster one is not running."
    assert list(runtime.iterdir()) == []


def test_cluster_continues_after_being_suspended() -> None:
    cluster_control.up("default", "a=1", "IPv4")
    (state,) = cluster_state.running()
    process = os.pidfd_open(state.pid)
    try:
        os.kill(state.pid, signal.SIGSTOP)
        assert not _ends(process, within=1.5)
        os.kill(state.pid, signal.SIGCONT)
        assert not _ends(process, within=2)
    finally:
        os.close(process)
    assert enter("web-a1", "true").returncode == 0


def _ends(process: int, *, within: float) -> bool:
    return bool(select.select([process], [], [], within)[0])


def test_cluster_has_the_fault_of_a_mutant(runtime: Path) -> None:
    cluster_control.up("default", "a=1,b=1", "IPv4", mutant="ignores-zone-hints")
    (service,) = [state.service for state in cluster_state.running()]
    asked = enter("web-a1", sys.executable, "-c", f"for _ in range(40): {ASK.format(**service)}")
    assert {*asked.stdout.split()} == {"web-a1", "web-b1"}, asked.stderr


def test_cluster_with_real_components_runs_workloads_and_mutant_controllers(
    runtime: Path,
) -> None:
    try:
        cluster_control.up("default", "a=1,b=1", "IPv4", control_plane="binaries:1.37", mutant="writes-no-hints")
    except UnavailableError as error:
        pytest.skip(f"unavailable: {error}")
    with closing(Api(yaml.safe_load((runtime / "default" / "kubeconfig").read_text()))) as api:
        app = {"app": "each"}
        template = {"metadata": {"labels": app}, "spec": {"containers": [{"name": "c", "image": "pause:3"}]}}
        spec = {"selector": {"matchLabels": app}, "template": template}
        api.request(
            "POST",
            "/apis/apps/v1/namespaces/default/daemonsets",
            {"apiVersion": "apps/v1", "kind": "DaemonSet", "metadata": {"name": "each"}, "spec": spec},
        )
        placed = partial(_nodes_of_running, api, "app=each")
        eventually(lambda: placed() == {"a1", "b1"}, within=30, describe="a pod of the DaemonSet on each node to run")
        assert api.get("namespaces", "", "default")["status"]["phase"] == "Active"
        slices = api.list("endpointslices", "default", label_selector="kubernetes.io/service-name=web")
        endpoints = [endpoint for each in slices for endpoint in each["endpoints"]]
        assert (len(endpoints), [each for each in endpoints if each.get("hints")]) == (2, [])


def _nodes_of_running(api: Api, labels: str) -> set[str]:
    pods = api.list("pods", "default", label_selector=labels)
    return {each["spec"].get("nodeName", "") for each in pods if each["status"]["phase"] == "Running"}


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"mutant": "no-such"}, "unknown mutant"),
        ({"mutant": "loses-the-field", "control_plane": "binaries:1.37"}, "replaces: omit --control-plane"),
        ({"mutant": "writes-no-hints", "controller": "kube-controller-manager:1.37"}, "omit --controller"),
        ({"mutant": "ignores-zone-hints", "proxy": "kube-proxy"}, "cannot be combined with --proxy kube-proxy"),
    ],
)
def test_impossible_mutant_is_refused(options: dict[str, Any], words: str) -> None:
    with pytest.raises(UsageError, match=words):
        cluster_control.up("default", "a=1", "IPv4", **options)


def test_cluster_has_the_requested_parts_and_runs_created_pods(runtime: Path) -> None:
    cluster_control.up("default", "a=1", "IPv4", kubernetes_version="1.30", feature_gates=("TopologyAwareHints=false",))
    api = Api(yaml.safe_load((runtime / "default" / "kubeconfig").read_text()))
    assert api.request("GET", "/version").body["minor"] == "30"
    api.create("namespaces", "", {"metadata": {"name": "other"}})
    mine = pod("mine", "a1")
    mine["spec"]["containers"][0]["image"] = EMULATED_AGNHOST  # the real one may not be in the cache of components
    api.create("pods", "other", mine)
    eventually(lambda: "other/mine" in cluster_state.running()[0].places, describe="the pod to run")
    assert "mine" in enter("other/mine", sys.executable, "-c", ASK.format(clusterIP="127.0.0.1", port=8080)).stdout
    api.close()


def test_recipe_paths_are_relative_to_the_current_folder(
    runtime: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    program = "import signal\nopen('began', 'w').close()\nprint('began', flush=True)\nsignal.pause()\n"
    Path("here.py").write_text(program, encoding="utf-8")
    recipe = {"name": "mine", "command": [sys.executable, "here.py"], "ready": [{"log": "began"}]}
    Path("mine.yaml").write_text(yaml.safe_dump(recipe), encoding="utf-8")
    cluster_control.up("default", "a=1", "IPv4", proxy="mine.yaml")
    assert Path("began").exists()


def test_command_joins_the_control_group_of_its_node(
    runtime: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A data plane that is attached to the group sees the sockets of commands on nodes and in pods."""
    if absent := program_requirements.missing(["cgroup2"]):
        pytest.skip(f"unavailable: {absent}")
    monkeypatch.chdir(tmp_path)
    program = "import signal; print('up', flush=True); signal.pause()"
    recipe = {"name": "mine", "command": [sys.executable, "-c", program], "ready": [{"log": "up"}]}
    Path("mine.yaml").write_text(yaml.safe_dump(recipe | {"isolation": ["cgroup2"]}), encoding="utf-8")
    cluster_control.up("default", "a=1", "IPv4", proxy="mine.yaml")
    group = "import pathlib; print(pathlib.Path('/proc/self/cgroup').read_text())"
    for place in ("a1", "web-a1"):
        assert "/trafficdist-" in enter(place, sys.executable, "-c", group).stdout
    assert "/trafficdist-" not in enter("external", sys.executable, "-c", group).stdout


@pytest.mark.parametrize(
    "option",
    [
        {"proxy": "what"},
        {"feature_gates": ("Odd",)},
        {"control_plane": "binaries"},
        {"supported_features": ("ClientAdress",)},
    ],
)
def test_impossible_cluster_is_refused_before_boot(runtime: Path, option: dict[str, Any]) -> None:
    with pytest.raises(UsageError):
        cluster_control.up("default", "a=1", "IPv4", **option)
    assert not (runtime / "default").exists()


@pytest.mark.parametrize(("version", "value"), [("1.33", "PreferClose"), ("1.34", "PreferSameZone")])
def test_example_service_prefers_its_zone_with_the_fields_of_the_release(
    runtime: Path, version: str, value: str
) -> None:
    cluster_control.up("default", "a=1", "IPv4", kubernetes_version=version)
    api = Api(yaml.safe_load((runtime / "default" / "kubeconfig").read_text()))
    assert api.get("services", "default", "web")["spec"]["trafficDistribution"] == value
    api.close()


def test_a_command_ends_with_its_own_status() -> None:
    cluster_control.up("default", "a=1", "IPv4")
    assert enter("a1", "sh", "-c", "exit 7").returncode == 7
    assert enter("a9", "true").returncode == 4
    absent = enter("external", "no-such-program")
    assert (absent.returncode, "cannot run 'no-such-program'" in absent.stderr) == (4, True)


def test_the_kubeconfig_is_private_and_complete(runtime: Path) -> None:
    cluster_control.up("default", "a=1", "IPv4")
    kubeconfig = runtime / "default" / "kubeconfig"
    assert kubeconfig.stat().st_mode & 0o777 == 0o600
    loaded = yaml.safe_load(kubeconfig.read_text())
    assert loaded["clusters"][0]["cluster"]["server"].startswith("https://127.0.0.1:")


def test_kubeconfig_and_its_path_are_printed(runtime: Path) -> None:
    cluster_control.up("one", "a=1", "IPv4")
    path = runtime / "one" / "kubeconfig"
    assert CliRunner().invoke(main, ["cluster", "kubeconfig", "one"]).stdout == path.read_text()
    assert CliRunner().invoke(main, ["cluster", "kubeconfig", "one", "--path"]).stdout == f"{path}\n"
    assert str(path) in cluster_control.listing()
    absent = CliRunner().invoke(main, ["cluster", "kubeconfig", "two"])
    assert (absent.exit_code, "'two' is not running; running: one" in absent.stderr) == (4, True)


def test_two_clusters_have_two_names() -> None:
    cluster_control.up("one", "a=1", "IPv4")
    with pytest.raises(UsageError, match="'one' is already running"):
        cluster_control.up("one", "a=1", "IPv4")
    cluster_control.up("two", "a=1", "IPv4")
    assert [state.name for state in cluster_state.running()] == ["one", "two"]


def test_leftovers_of_a_killed_cluster_are_cleaned_up(runtime: Path) -> None:
    cluster_control.up("default", "a=1", "IPv4")
    (state,) = cluster_state.running()
    process = os.pidfd_open(state.pid)
    signal.pidfd_send_signal(process, signal.SIGKILL)
    os.waitpid(state.pid, 0)
    os.close(process)
    assert cluster_control.down("default") == "Cluster default is not running."
    assert not (runtime / "default").exists()


def test_reused_process_id_is_not_taken_for_the_cluster(runtime: Path) -> None:
    folder = cluster_state.folder_of("old")
    folder.mkdir(mode=0o700)
    state = cluster_state.ClusterState("old", os.getpid(), 1, "three_zones", {}, {}, "", {}, {})
    cluster_state.save(folder, state)
    assert cluster_control.down("old") == "Cluster old is not running."


def test_a_folder_that_others_can_enter_is_refused(runtime: Path) -> None:
    runtime.mkdir(mode=0o755)
    runtime.chmod(0o755)
    with pytest.raises(UnavailableError, match="mode 0700"):
        cluster_control.listing()
    runtime.chmod(0o700)


def test_file_in_place_of_the_folder_is_refused_with_the_fix(runtime: Path) -> None:
    runtime.touch()
    with pytest.raises(UnavailableError, match="Remove it, or set XDG_RUNTIME_DIR"):
        cluster_control.listing()
    runtime.unlink()


def test_boot_failure_is_reported(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "executable", "/bin/false")
    with pytest.raises(UnavailableError, match="did not start"):
        cluster_control.up("default", "a=1", "IPv4")
    assert cluster_state.running() == []


@pytest.fixture
def temp(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Use the test's folder as temp folder and home, and unset XDG_RUNTIME_DIR."""
    monkeypatch.delenv("XDG_RUNTIME_DIR")
    monkeypatch.delenv("XDG_STATE_HOME", raising=False)
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    monkeypatch.setenv("TMPDIR", str(tmp_path / "temp"))
    (tmp_path / "temp").mkdir()
    return tmp_path / "temp"


def files(folder: Path) -> list[str]:
    return sorted(str(path.relative_to(folder)) for path in folder.rglob("*") if not path.is_dir())


def test_down_leaves_nothing(temp: Path) -> None:
    cluster_control.up("one", "a=1", "IPv4")
    while_up = files(temp.parent)
    cluster_control.down("one")
    assert ([name for name in while_up if "one/kubeconfig" in name], files(temp.parent)) == (
        ["home/.local/state/trafficdist/clusters/one/kubeconfig"],
        [],
    )


def test_no_predictable_name_in_the_temp_folder_is_used(temp: Path) -> None:
    assert cluster_state.root().is_relative_to(temp.parent / "home")


def test_concurrent_commands_use_the_same_lock(runtime: Path) -> None:
    turns: list[str] = []

    def take(name: str) -> None:
        for _ in range(50):
            with cluster_control._locked():
                turns.append(f"{name} in")
                turns.append(f"{name} out")

    threads = [threading.Thread(target=take, args=(str(number),), daemon=True) for number in range(20)]
    for each in threads:
        each.start()
    for each in threads:
        each.join(30)
    assert len(turns) == 2000
    assert [turn.replace("in", "out") for turn in turns[::2]] == turns[1::2]
    assert list(runtime.iterdir()) == []
