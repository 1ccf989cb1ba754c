"""Tests proxies that are programs on the nodes, including programs that exit, hang or never become ready."""

from __future__ import annotations

import os
import shlex
import signal
import subprocess
import sys
from dataclasses import replace
from functools import partial
from pathlib import Path

import pytest
import yaml

from harness.backends.netns import NetnsBackend
from harness.errors import DistrustError, EndedError, InconclusiveError, UnavailableError
from harness.eventually import eventually
from harness.model import manifests
from harness.model.release import PROXY, Release, release
from harness.proxies.executable import ExecutableProxy
from harness.recipes import programs
from harness.recipes.readiness import LogCheck
from tests.harness.proxies.conftest import MARK, Boot, MakeFake, processes_in, program
from tests.harness.proxies.test_node_programs import exists

SUITE = """
import time
from pathlib import Path
from harness.model.requirements import *

CORE = Feature("Routing", Profile.SERVICE_PROXY, True, "Routes.")

@requirement("KEP-1/fails", "It routes.", level=MUST, features={CORE}, source="KEP-1, Design")
def test_fails(three_zones):
    (Path(__file__).parents[1] / "dies-when-told.py.told").touch()
    time.sleep(1)  # as long as a measuring window
    raise AssertionError("nobody answered")
"""


def pid_of(backend: NetnsBackend) -> int:
    assert isinstance(backend.proxy, ExecutableProxy)
    return backend.proxy._programs._parts[0].processes.running["a1"].pid


def test_proxy_that_exits_at_start_is_reported_with_its_first_log_error(boot: Boot) -> None:
    told = r"fake on a1 exited with 3; the first error of its log, in line 2 of 4: bad flag: --nodes$"
    with pytest.raises(DistrustError, match=told) as raised:
        boot("exits")
    assert raised.value.logs["fake-a1.log"].splitlines()[-1] == "  --node NAME"


def test_silent_proxy_times_out(boot: Boot) -> None:
    with pytest.raises(DistrustError, match=r"(?s)fake on a1 was not ready after 4 s: http port 10256.*thinking"):
        boot("hangs", ready_seconds=4)


def test_unready_proxy_is_an_error_that_names_what_is_missing(boot: Boot) -> None:
    with pytest.raises(DistrustError, match=r"(?s)answers 503, not 200.*waiting for nothing"):
        boot("unready", ready_seconds=4)


def test_proxy_that_exits_later_is_an_error_at_the_next_check(boot: Boot) -> None:
    backend = boot("dies")
    assert isinstance(backend.proxy, ExecutableProxy)
    process = backend.proxy._programs._parts[0].processes.running["a1"]
    eventually(lambda: not process.alive, describe="its end")
    with pytest.raises(EndedError, match=r"(?s)fake on a1 exited with 4.*out of luck"):
        backend.settle()


def test_proxy_that_hangs_later_is_inconclusive(boot: Boot, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("harness.netns.http.TIMEOUT", 0.2)
    backend = boot("runs", synced=[{"http": {"port": 10256}}])
    os.kill(pid_of(backend), signal.SIGSTOP)
    told = r"service-proxy to have processed all events \(fake on a1: http port 10256 /healthz: timed out\)"
    with pytest.raises(InconclusiveError, match=told):
        backend.settle(within=0.5)
    os.kill(pid_of(backend), signal.SIGCONT)


def test_closing_leaves_no_program_and_no_folder(boot: Boot) -> None:
    backend = boot("runs")
    pid = pid_of(backend)
    folder = backend.proxy._programs._connections.folder  # type: ignore[attr-defined]
    backend.close()
    assert not exists(pid)
    assert not folder.exists()


def test_placeholders_are_those_of_the_node(boot: Boot) -> None:
    text = "{node} {node_ip} {cluster_cidrs} {service_cidrs} {server} {netns}"
    backend = boot("runs", files={"it.txt": text})
    words = backend.proxy.evidence("a1")["fake-a1-it.txt"].split()
    assert words[:2] == ["a1", backend.node_addresses("a1")["IPv4"]]
    assert words[2:4] == ["10.244.0.0/16,fd00:10:244::/48", "10.96.0.0/16,fd00:10:96::/112"]
    assert words[4].startswith("https://127.0.0.1:")
    enter = "import ctypes, os, sys; failed = ctypes.CDLL(None).setns(os.open(sys.argv[1], os.O_RDONLY), 0); "
    enter += "print(failed or os.readlink('/proc/self/ns/net'))"
    entered = {"explain": {"command": [sys.executable, "-c", enter, "{netns}"]}}
    inside = boot("runs", **entered)
    where = f"net:[{inside.network.nodes['a1'].namespace.inode}]"
    assert inside.proxy.explain("a1", "default", "web").splitlines()[-1].strip() == where


def test_program_reaches_the_api_server_from_its_netns(boot: Boot) -> None:
    script = (
        "import json, ssl, sys, time, urllib.request as u; c = json.load(open(sys.argv[1])); "
        "k = ssl._create_unverified_context(); t = c['users'][0]['user']['token']; "
        "r = u.Request(c['clusters'][0]['cluster']['server'] + '/api/v1/nodes', "
        "headers={'Authorization': 'Bearer ' + t}); "
        "print('nodes', len(json.load(u.urlopen(r, context=k))['items']), flush=True); time.sleep(600)"
    )
    command = [sys.executable, "-c", script.replace("{", "{{").replace("}", "}}"), "{kubeconfig}"]
    backend = boot("runs", command=command, ready=[{"log": "^nodes 1$"}])
    assert "nodes 1" in backend.proxy.evidence("a1")["fake-a1.log"].splitlines()


def test_each_program_is_started_when_the_one_before_is_ready(boot: Boot) -> None:
    agent = program("agent", "sleep 0.3; echo there > {folder}/socket; echo up", files={"agent.conf": "{node}"})
    helper = program("helper", "echo up, with $(cat {folder}/socket $IT)", environment={"IT": "{folder}/agent.conf"})
    backend = boot("", programs=[agent, helper])
    evidence = backend.proxy.evidence("a1")
    assert evidence["helper-a1.log"] == "up, with there a1\n"
    assert {"agent-a1.log", "agent-a1-agent.conf"} <= set(evidence)


def test_checks_of_each_program_run_and_are_named(boot: Boot) -> None:
    waiting = program("helper", "echo up; while ! test -e {folder}/go; do sleep 0.01; done; echo done")
    backend = boot("", programs=[program("agent", "echo up"), waiting])
    assert isinstance(backend.proxy, ExecutableProxy)
    late = replace(backend.proxy._programs._parts[1].program, synced=(LogCheck("^done$"),))
    backend.proxy._programs._parts[1].program = late
    told = r"\(helper on a1: no line of the log matches '\^done\$'\)"
    with pytest.raises(InconclusiveError, match=told):
        backend.settle(within=0.3)
    (backend.proxy._programs._connections.folder / "a1" / "go").touch()
    backend.settle()


def test_unready_program_stops_all_programs_of_its_node(boot: Boot) -> None:
    agent = program("agent", f"{MARK}; echo up")
    with pytest.raises(DistrustError, match=r"helper on a1 exited with 3") as raised:
        boot("", programs=[agent, program("helper", "exit 3")])
    pid_namespace = int(raised.value.logs["agent-a1.log"].split()[0])
    eventually(lambda: not processes_in(pid_namespace), describe="the end of its programs")


def test_exit_of_any_program_is_detected_and_restart_starts_all(boot: Boot) -> None:
    backend = boot("", programs=[program("agent", "echo up"), program("helper", "echo up")])
    assert isinstance(backend.proxy, ExecutableProxy)
    first, last = (part.processes.running["a1"] for part in backend.proxy._programs._parts)
    os.kill(last.pid, signal.SIGKILL)
    eventually(lambda: not last.alive, describe="its end")
    with pytest.raises(EndedError, match=r"helper on a1 was ended by SIGKILL"):
        backend.settle()
    backend.stop_component(PROXY, ["a1"])
    assert not exists(first.pid)
    backend.start_component(PROXY, Release(), ["a1"])
    assert all(part.processes.running["a1"].alive for part in backend.proxy._programs._parts)


def test_command_can_show_whether_all_changes_are_applied(boot: Boot, tmp_path: Path) -> None:
    """The command runs on the node of its program, with its isolation and variables."""
    done = tmp_path / "done"
    done.touch()
    script = f"echo $ASKED $(uname -n); test -e {done}"
    synced = [{"command": ["sh", "-c", script, "{node}"]}]
    backend = boot("runs", environment={"ASKED": "of {node}"}, isolation=["hostname"], synced=synced)
    assert backend.proxy.synced()
    done.unlink()
    assert not backend.proxy.synced()
    assert backend.proxy.lacking == "fake on a1: command sh exited with 1: of a1 a1"


def test_programs_of_a_node_share_an_isolation_that_outlives_them(boot: Boot) -> None:
    agent = program("agent", "ls -A /run; uname -n; echo told > /run/agent; echo up")
    helper = program("helper", "cat /run/agent; echo up")
    explain = {"command": ["sh", "-c", "cat /run/agent; uname -n"]}
    backend = boot("", programs=[agent, helper], isolation=["run", "hostname"], explain=explain)
    logs = backend.proxy.evidence("a1")
    assert (logs["agent-a1.log"], logs["helper-a1.log"]) == ("a1\nup\n", "told\nup\n")
    assert backend.proxy.explain("a1", "default", "web").splitlines()[1:] == ["  told", "  a1"]
    assert not Path("/run/agent").exists()
    backend.stop_component(PROXY, ["a1"])
    backend.start_component(PROXY, Release(), ["a1"])
    assert backend.proxy.evidence("a1")["agent-a1.log"] == "a1\nup\nagent\na1\nup\n"


def test_recipe_fields_are_set_on_every_service_that_lacks_them(boot: Boot) -> None:
    """A Service of a scenario about the field does not get the field, nor an annotation for hints."""
    hints = "service.kubernetes.io/topology-mode"
    usual = {"annotations": {"a.example/lb": "on", hints: "Auto"}, "spec": {"trafficDistribution": "PreferClose"}}
    backend = boot("runs", services=usual)
    create = partial(backend.api.create, "services", "default")
    plain, own = (
        create(manifests.service("plain", annotations={"b.example/x": "y"})),
        create(manifests.service("own", annotations={"a.example/lb": "off"}, trafficDistribution="PreferSameNode")),
    )
    assert plain["metadata"]["annotations"] == {"a.example/lb": "on", "b.example/x": "y", hints: "Auto"}
    assert plain["spec"]["trafficDistribution"] == "PreferClose"
    assert own["metadata"]["annotations"] == {"a.example/lb": "off", hints: "Auto"}
    assert own["spec"]["trafficDistribution"] == "PreferSameNode"
    about = create(manifests.service("about", annotations={"c.example/x": ""}, trafficDistribution=""))
    assert "trafficDistribution" not in about["spec"]
    assert about["metadata"]["annotations"] == {"a.example/lb": "on", "c.example/x": ""}
    asked = {"metadata": {"annotations": usual["annotations"]}, "spec": usual["spec"]}
    assert backend.environment()["services"] == asked
    written = backend.api.create("endpointslices", "default", manifests.endpoint_slice("plain", "plain", []))
    assert "annotations" not in written["metadata"]


def test_command_explains_a_nodes_decision(boot: Boot) -> None:
    """The command runs in the node's netns, once for an explanation and for the first few Services in the evidence."""
    script = "import os, sys; print(*sys.argv[1:], os.readlink('/proc/self/ns/net'), os.environ['ASKED'])"
    command = [sys.executable, "-c", script, "{node}", "{namespace}/{service}", "{cluster_ip}"]
    backend = boot("runs", environment={"ASKED": "of {node}"}, explain={"command": command})
    made = backend.api.create("services", "default", manifests.service("web"))
    where = f"net:[{backend.network.nodes['a1'].namespace.inode}]"
    said = f"a1 default/web {made['spec']['clusterIP']} {where} of a1"
    explained = backend.explain("default", "web", ["a1"])
    assert explained == f"the proxy reports: a1: fake about default/web, by command:\n  {said}"
    assert said in backend.decisions()["a1"].splitlines()
    assert "a1 default/gone  net:[" in backend.explain("default", "gone", ["a1"])


def test_command_that_names_no_service_is_run_once_for_the_evidence(boot: Boot) -> None:
    backend = boot("runs", explain={"command": ["sh", "-c", "echo all of {node}; exit 3"]})
    for name in ("one", "two"):
        backend.api.create("services", "default", manifests.service(name))
    assert backend.decisions()["a1"].splitlines()[1:] == ["all of a1", "(exit code 3)"]


@pytest.mark.parametrize(
    ("command", "said"),
    [
        (["no-such-program"], "cannot run no-such-program: "),
        (["sleep", "60"], "the command did not end within 0.2 s"),
    ],
)
def test_command_that_cannot_explain_is_reported(
    boot: Boot, monkeypatch: pytest.MonkeyPatch, command: list[str], said: str
) -> None:
    monkeypatch.setattr(programs, "COMMAND_SECONDS", 0.2)
    assert said in boot("runs", explain={"command": command}).explain("default", "web", ["a1"])


def test_log_pattern_explains_a_nodes_decision(boot: Boot) -> None:
    lines = ("map web.default -> 1", "map webXdefault -> 2", "map web.default -> 3")
    command = ["sh", "-c", f"printf '%s\\n' {shlex.join(lines)}; exec sleep 600"]
    backend = boot("runs", command=command, ready=[{"log": "3$"}], explain={"log": r"{service}\.{namespace} "})
    lines = backend.explain("default", "web", ["a1"]).splitlines()
    assert [each.strip() for each in lines[1:]] == ["map web.default -> 1", "map web.default -> 3"]
    assert backend.decisions() == {}


def test_program_cannot_be_of_another_release(boot: Boot) -> None:
    backend = boot("runs")
    with pytest.raises(UnavailableError, match=r"fake has only one version, which is not release 1\.30"):
        backend.start_component(PROXY, release("1.30"), ["a1"])


@pytest.mark.parametrize(
    ("what", "said", "code"), [("exits", "bad flag: --nodes", 12), ("dies-when-told", "out of luck", 10)]
)
def test_broken_proxy_causes_no_failure(what: str, said: str, code: int, fake: MakeFake, tmp_path: Path) -> None:
    """If the proxy does not start, nothing is judged.

    If it exits during a requirement, the requirement is inconclusive.
    """
    recipe = {"name": "fake", "command": fake(what), "ready": [{"http": {"port": 10256}}]}
    (tmp_path / "fake.yaml").write_text(yaml.safe_dump(recipe), encoding="utf-8")
    (tmp_path / "suite").mkdir()
    (tmp_path / "suite" / "test_it.py").write_text(SUITE, encoding="utf-8")
    command = [str(Path(sys.executable).with_name("trafficdist")), "run", f"--suite={tmp_path / 'suite'}"]
    ran = subprocess.run(
        [*command, f"--proxy={tmp_path / 'fake.yaml'}", f"--output-dir={tmp_path / 'out'}"],
        capture_output=True,
        text=True,
        check=False,
        timeout=60,
    )
    report = yaml.safe_load((tmp_path / "out" / "report.yaml").read_text(encoding="utf-8"))
    verdicts = {each["id"]: each["verdict"] for each in report["tests"]}
    assert ran.returncode == code
    assert said in ran.stdout
    assert verdicts == {"KEP-1/fails": "inconclusive"}
    logs = [path.read_text() for path in (tmp_path / "out" / "evidence" / "KEP-1" / "fails").glob("fake-a*.log")]
    assert any(said in log for log in logs)
