"""Tests `trafficdist doctor` on a real API server and on this machine."""

from __future__ import annotations

import errno
import io
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
import yaml
from click.testing import CliRunner
from rich.console import Console

from harness.api.client import Api
from harness.checks import check, program_requirements
from harness.checks.check import CheckState, Finding
from harness.checks.cluster import gate_version
from harness.checks.machine import MACHINE
from harness.commands.doctor_output import JudgedSuite, show
from harness.commands.main import main
from harness.errors import UnavailableError
from harness.guest.lease import hold
from harness.guest.permissions import RULES
from harness.model import manifests
from harness.model.needs import Needs
from harness.model.requirements import MUST, Feature, Profile, Requirement
from harness.model.topology import THREE_ZONES, Node
from harness.netns import kernel, process, sandbox, userns_restrictions
from harness.netns.addresses import FAMILIES
from harness.netns.userns_restrictions import UsernsFailure
from harness.run.prerequisites import IMPLEMENTATION, examine_cluster
from harness.settings.options import resolve
from reference.apiserver.api import ApiServer
from reference.apiserver.server import HttpServer
from reference.features import Features
from tests.harness.guest.rbac_rules import as_rbac
from tests.reference.limited_users import add_user

Examine = Callable[..., dict[str, list[Finding]]]

SUITE = """
from harness.model.requirements import *

CORE = Feature("Routing", Profile.SERVICE_PROXY, True, "Routes.")

@requirement("KEP-1/restarts", "It restarts.", level=MUST, features={CORE}, source="KEP-1")
def test_restarts(): ...

@requirement("KEP-1/routes", "It routes.", level=MUST, features={CORE}, source="KEP-1")
def test_routes(): ...
"""


def test_program_of_a_recipe_is_looked_for(tmp_path: Path) -> None:
    recipe = {"name": "mine", "version": "1.0", "command": ["sh", "-c", "exec mine"], "ready": [{"log": "up"}]}
    path = tmp_path / "mine.yaml"
    for command, state in (("sh", CheckState.OK), ("no-such-dns", CheckState.UNUSABLE)):
        path.write_text(yaml.safe_dump(recipe | {"command": [command]}), encoding="utf-8")
        for option in ("dns", "proxy"):
            (found,) = check.examine(IMPLEMENTATION, resolve({option: str(path)}, environment={}))
            assert (found.state, "mine" in found.found) == (state, True)
    assert check.examine(IMPLEMENTATION, resolve({}, environment={})) == []


@pytest.mark.parametrize("source", ["option", "variable", "file"])
def test_requirements_of_a_recipe_are_checked_by_name(
    source: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "mine.yaml"
    path.write_text("{name: mine, command: [sh], ready: [{log: up}], requires: [bridge, ip_vs]}", encoding="utf-8")
    monkeypatch.setattr(
        program_requirements, "missing", lambda names: {"ip_vs": "no IPVS here"} if "ip_vs" in names else {}
    )
    (tmp_path / "options.yaml").write_text(f"proxy: {path}", encoding="utf-8")
    variables = {"variable": {"PROXY": str(path)}, "file": {"OPTIONS_FILE": str(tmp_path / "options.yaml")}}
    for name, value in variables.get(source, {}).items():
        monkeypatch.setenv(f"TRAFFICDIST_{name}", value)
    ended = CliRunner().invoke(main, ["doctor", *(["--proxy", str(path)] if source == "option" else [])])
    said = " ".join(ended.output.split())
    assert (ended.exit_code, "proxy: ip_vs no IPVS here" in said, "proxy: bridge is here" in said) == (
        12,
        True,
        True,
    ), said


def test_uncached_control_plane_is_reported(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TRAFFICDIST_CACHE", str(tmp_path))
    settings = resolve({"control-plane": "binaries:1.37", "backend": "netns"}, environment={})
    (found,) = check.examine(IMPLEMENTATION, settings)
    assert (found.name, found.state) == ("control plane", CheckState.UNUSABLE)
    assert "components fetch kube-controller-manager 1.37" in found.found


@pytest.fixture
def server(request: pytest.FixtureRequest) -> Iterator[HttpServer]:
    http = HttpServer(ApiServer(getattr(request, "param", None)))
    http.start()
    yield http
    http.stop()


@pytest.fixture
def api(server: HttpServer) -> Iterator[Api]:
    """Return the API of a cluster with one node for each node of the topology."""
    api = Api(server.kubeconfig(), timeout=5)
    for number, node in enumerate(THREE_ZONES.nodes, start=1):
        cidrs = [f"10.244.{number}.0/24", f"fd00:10:244:{number}::/64"]
        api.create("nodes", "", manifests.node(Node(f"n-{number}", node.zone), [f"10.0.0.{number}"], cidrs))
    yield api
    api.close()


@pytest.fixture
def kubeconfig(server: HttpServer, api: Api, tmp_path: Path) -> Path:
    path = tmp_path / "kubeconfig"
    path.write_text(yaml.safe_dump(server.kubeconfig()))
    return path


@pytest.fixture
def examine(kubeconfig: Path) -> Examine:
    """Return the findings about the cluster, by name."""

    def run() -> dict[str, list[Finding]]:
        found: dict[str, list[Finding]] = {}
        for each in examine_cluster(resolve({"backend": "kubeconfig", "kubeconfig": str(kubeconfig)}, environment={})):
            found.setdefault(each.name, []).append(each)
        return found

    return run


def test_a_cluster_with_all_nodes_lacks_abilities_only(examine: Examine) -> None:
    found = examine()
    lacking = {name for name, checks in found.items() if any(each.state is CheckState.LACKS for each in checks)}
    assert lacking == {"abilities"}
    assert "a1 is n-1" in found["zones and nodes"][0].found
    assert found["IP families"][0].found == "Services get IPv4 and IPv6, pods IPv4 and IPv6"


def test_nothing_is_written(examine: Examine, server: HttpServer) -> None:
    seen = len(server.requests())
    examine()
    writes = {each.path for each in server.requests()[seen:] if each.method != "GET" and "dryRun=All" not in each.query}
    assert {path.rpartition("/")[2] for path in writes} == {"selfsubjectaccessreviews", "selfsubjectreviews"}


def test_missing_nodes_are_listed_by_topology(examine: Examine, api: Api) -> None:
    api.delete("nodes", "", "n-5")
    api.patch("nodes", "", "n-4", {"spec": {"unschedulable": True}})
    (found,) = examine()["zones and nodes"]
    assert (found.state, found.lacks.nodes) == (CheckState.LACKS, {"b2", "c1"})
    assert "n-4 is cordoned" in found.found


def test_requested_topology_without_enough_nodes_is_reported(kubeconfig: Path) -> None:
    code, said = doctor("--kubeconfig", kubeconfig, "--topology=a=2,b=1,c=1")
    assert "only 4 are requested" in said
    assert "no node for b2" in said
    assert code == 11


def test_a_cluster_without_zones_cannot_be_used(examine: Examine, api: Api) -> None:
    for number in range(1, 6):
        api.patch("nodes", "", f"n-{number}", {"metadata": {"labels": {"topology.kubernetes.io/zone": None}}})
    assert examine()["zones and nodes"][0].state is CheckState.UNUSABLE


@pytest.mark.parametrize("server", [Features((1, 33))], indirect=True)
def test_disabled_gates_cost_their_features(examine: Examine) -> None:
    (found,) = examine()["feature gates"]
    assert (found.state, found.features) == (CheckState.LACKS, {"PreferSameZone", "PreferSameNode", "NodeHints"})


def test_every_finding_states_its_cost(examine: Examine, server: HttpServer, api: Api, kubeconfig: Path) -> None:
    api.delete("nodes", "", "n-5")
    limited = server.kubeconfig()
    granted = [as_rbac(rule) for rule in RULES if rule.resources != ("daemonsets",)]
    limited["users"][0]["user"] = {"token": add_user(server, "bob", granted)}
    kubeconfig.write_text(yaml.safe_dump(limited))
    lacks = [each for found in examine().values() for each in found if each.state is CheckState.LACKS]
    assert {each.name for each in lacks} == {"abilities", "permissions", "zones and nodes"}
    assert [each for each in lacks if not (each.costs or each.lacks.abilities or each.lacks.nodes)] == []


def test_missing_permissions_are_listed(examine: Examine, server: HttpServer, kubeconfig: Path) -> None:
    granted = [as_rbac(rule) for rule in RULES if rule.resources not in (("pods",), ("daemonsets",))]
    limited = server.kubeconfig()
    limited["users"][0]["user"] = {"token": add_user(server, "bob", granted)}
    kubeconfig.write_text(yaml.safe_dump(limited))
    states = {each.found.split(" (")[0]: each.state for each in examine()["permissions"]}
    assert states["may not get daemonsets.apps, list daemonsets.apps"] is CheckState.LACKS
    assert CheckState.UNUSABLE in states.values()


def test_another_run_on_the_cluster_is_reported(examine: Examine, api: Api) -> None:
    with hold(api, "aaaaaaaa"):
        (found,) = examine()["other runs"]
    assert (found.state, "in use by run aaaaaaaa" in found.found) == (CheckState.UNUSABLE, True)


@pytest.mark.parametrize(("version", "state"), [("v1.37.2", CheckState.OK), ("v1.33.1", CheckState.UNKNOWN)])
def test_kubelet_of_another_release_is_reported(examine: Examine, api: Api, version: str, state: CheckState) -> None:
    api.patch("nodes", "", "n-1", {"status": {"nodeInfo": {"kubeletVersion": version}}}, subresource="status")
    (found,) = examine()["kubelets"]
    assert (found.state, f"1 x {version}" in found.found) == (state, True), found.found


@pytest.mark.parametrize(
    ("told", "version"), [("v1.34.2+k3s1", (1, 34)), ("v1.33.5-gke.100", (1, 33)), ("what", (0, 0))]
)
def test_versions_of_distributions_are_understood(told: str, version: tuple[int, int]) -> None:
    assert gate_version({"gitVersion": told}) == version


def doctor(*arguments: object) -> tuple[int, str]:
    result = CliRunner().invoke(main, ["doctor", *map(str, arguments)], env={"COLUMNS": "200"})
    return result.exit_code, result.output


def test_command_counts_the_requirements_lost(kubeconfig: Path, tmp_path: Path) -> None:
    suite = tmp_path / "suite"
    suite.mkdir()
    (suite / "test_small.py").write_text(SUITE)
    (suite / "needs.yaml").write_text("KEP-1/restarts: {abilities: [restart-proxy]}\n")
    code, said = doctor("--kubeconfig", kubeconfig, "--suite", suite)
    assert (code, "1 of 2 requirements of service-proxy is not judged: KEP-1/restarts" in said) == (11, True), said


def test_command_reads_the_environment_of_a_run(kubeconfig: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TRAFFICDIST_KUBECONFIG", str(kubeconfig))
    monkeypatch.setenv("TRAFFICDIST_TOPOLOGY", "a=2,b=2,c=2")
    _, said = doctor("--profile=dns")
    assert "no node for c2" in said


def test_ids_are_not_truncated_on_a_narrow_terminal() -> None:
    name = f"KEP-1/{'long-' * 20}slug"
    lack = Finding(CheckState.LACKS, "no x", name="abilities", lacks=Needs(frozenset({"x"})))
    core = Feature("Routing", Profile.SERVICE_PROXY, True, "Routes.")
    counted = JudgedSuite(
        [Requirement(name, "It is long.", MUST, (core,), "KEP-1")], {name: lack.lacks}, [core.profile]
    )
    console = Console(file=io.StringIO(), width=60)
    show([lack], counted, console)
    assert name in "".join(console.file.getvalue().split())  # type: ignore[attr-defined]


@pytest.mark.parametrize(
    ("lacking", "said"),
    [
        (["dns"], ""),
        (["dns", "restart-proxy"], "Together: 2 of 2 requirements"),
        (["open-connections"], "Together: at least 1 of 2 requirements"),
        (["dns", "open-connections"], "Together: at least 2 of 2 requirements"),
    ],
)
def test_number_is_a_lower_bound_if_answers_of_clients_may_show_more(lacking: list[str], said: str) -> None:
    needs = dict(zip(("KEP-1/a", "KEP-1/b"), [Needs(frozenset({each})) for each in (*lacking, "none")], strict=False))
    lacks = [Finding(CheckState.LACKS, "no x", lacks=Needs(frozenset({each}))) for each in lacking]
    core = Feature("Routing", Profile.SERVICE_PROXY, True, "Routes.")
    requirements = [Requirement(each, "It is.", MUST, (core,), "KEP-1") for each in needs]
    console = Console(file=io.StringIO(), width=200)
    show(lacks, JudgedSuite(requirements, needs, [core.profile]), console)
    text = console.file.getvalue()  # type: ignore[attr-defined]
    assert (said in text, "A run may skip more" in text) == (True, "at least" in said)
    assert ("Together" in text) == bool(said)


def test_missing_kubeconfig_exits_with_4(tmp_path: Path) -> None:
    code, said = doctor("--kubeconfig", tmp_path / "none")
    assert (code, "no such file; choose one with --kubeconfig" in said) == (4, True)


def test_this_machine_can_be_an_embedded_cluster() -> None:
    assert {each.state for each in check.examine(MACHINE, FAMILIES)} == {CheckState.OK}


def test_a_kernel_without_ipv6_costs_its_requirements(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(kernel, "missing", lambda: [kernel.IPV6, kernel.VETH])
    _, _, six, veth, _ = check.examine(MACHINE, FAMILIES)
    assert (six.state, six.features) == (CheckState.LACKS, {"IPv6", "DualStack"})
    assert (veth.state, "modprobe veth" in veth.found) == (CheckState.UNUSABLE, True)


def test_unreplaceable_resolv_conf_is_reported_with_its_cost(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: object, **__: object) -> None:
        raise UnavailableError("cannot mount replacement files for a program: unshare: Operation not permitted")

    monkeypatch.setattr(process, "run", refuse)
    *_, files = check.examine(MACHINE, FAMILIES)
    assert (files.name, files.state) == ("files of pods", CheckState.LACKS)
    assert "unshare: Operation not permitted" in files.found
    assert "one of profile dns" in files.costs


def test_conclusion_about_this_machine_comes_first(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("KUBECONFIG", str(tmp_path / "none"))
    code, said = doctor()
    assert (code, said.splitlines()[0]) == (0, "Nothing is missing."), said
    assert "network namespaces" in said


@pytest.mark.parametrize("options", [("--context=x",), ("--allow-disruptive",), ("--proxy=installed",)], ids=" ".join)
def test_option_of_a_real_cluster_selects_the_kubeconfig(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, options: tuple[str, ...]
) -> None:
    monkeypatch.setenv("KUBECONFIG", str(tmp_path / "none"))
    code, said = doctor(*options)
    assert (code, f"kubeconfig {tmp_path}/none: no such file" in said) == (4, True), said


def test_setting_that_forbids_user_namespaces_is_reported(monkeypatch: pytest.MonkeyPatch) -> None:
    readings = UsernsFailure("user namespace", errno.EPERM, apparmor="1")

    def refuse() -> None:
        raise UnavailableError(userns_restrictions.explain(readings))

    monkeypatch.setattr(sandbox, "enter", refuse)
    code, said = doctor("--backend=netns")
    assert code == 12
    assert "kernel.apparmor_restrict_unprivileged_userns=0" in "".join(said.split("\n"))
