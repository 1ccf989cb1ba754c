"""`--from` reads what people have: files and folders, JSON and YAML, lists and single objects, without nodes too."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest
import yaml
from click.testing import CliRunner, Result

from harness.commands.main import main
from tests.explain.cluster_builders import endpoint, objects, pod

WELL = "Service shop/web: connections stay in the zone of the client, from all"
_KINDS = {"services": "Service", "endpointslices": "EndpointSlice", "nodes": "Node"}


def run(source: str, *arguments: str, stdin: str = "") -> Result:
    command = ["explain", *(arguments or ("shop/web",)), "--from", source]
    return CliRunner().invoke(main, command, env={"COLUMNS": "160"}, input=stdin)


def everything(*without: str) -> list[dict[str, object]]:
    seen = objects()
    lists = {"services": seen.services, "endpointslices": seen.endpointslices, "nodes": seen.nodes}
    return [{"kind": _KINDS[name], **each} for name, found in lists.items() if name not in without for each in found]


LIST = {"apiVersion": "v1", "kind": "List", "items": everything()}
FILES = {
    "a list as YAML": ("all.yaml", yaml.safe_dump(LIST)),
    "a list as JSON": ("all.json", json.dumps(LIST)),
    "documents as YAML": ("all.yml", yaml.safe_dump_all(everything())),
    "documents as JSON": ("all.txt", "".join(json.dumps(each, indent=2) + "\n" for each in everything())),
    "documents among logs": (
        "dump.txt",
        "".join(f"==== START logs ====\n{{ nothing\n==== END ====\n{json.dumps(each)}\n" for each in everything()),
    ),
}


@pytest.mark.parametrize(("name", "text"), FILES.values(), ids=FILES)
def test_file_and_standard_input_are_read(name: str, text: str, tmp_path: Path) -> None:
    (tmp_path / name).write_text(text)
    for result in (run(str(tmp_path / name)), run("-", stdin=text)):
        assert result.stdout.startswith(f"{WELL} 5 nodes"), result.output
        assert result.exit_code == 0


def test_folder_of_single_objects_is_read_with_its_subfolders(tmp_path: Path) -> None:
    for number, each in enumerate(everything()):
        place = tmp_path / "namespaces" / "shop" / f"{number}"
        place.mkdir(parents=True)
        (place / "object.yaml").write_text(yaml.safe_dump(each))
    assert run(str(tmp_path)).stdout.startswith(f"{WELL} 5 nodes")


def test_lists_of_a_kind_are_read_whatever_their_files_are_called(tmp_path: Path) -> None:
    seen = objects()
    for name, found in (("Service", seen.services), ("EndpointSlice", seen.endpointslices), ("Node", seen.nodes)):
        items = [{key: value for key, value in each.items() if key != "kind"} for each in found]
        (tmp_path / f"x{len(name)}.json").write_text(json.dumps({"kind": f"{name}List", "items": items}))
    assert run(str(tmp_path)).stdout.startswith(f"{WELL} 5 nodes")


def test_without_nodes_the_rest_is_explained(tmp_path: Path) -> None:
    (tmp_path / "all.json").write_text(json.dumps({"items": everything("nodes")}))
    result = run(str(tmp_path / "all.json"))
    named = f"{WELL.removesuffix('all')}the 3 nodes that EndpointSlices name (nodes were not read)"
    assert result.stdout.splitlines()[0] == f"{named}, if kube-proxy serves them", result.output
    for line in (
        f"  cluster   Kubernetes version not read, nodes not read, controller not known, {PROVEN}",
        "  served by not known: no pod of a service proxy was seen; predicted as kube-proxy of a current release:",
        "  not read  nodes: there are none in",
    ):
        assert f"\n{line}" in result.stdout
    told = json.loads(run(str(tmp_path / "all.json"), "shop/web", "--format", "json").stdout)
    (served,) = told["served_by"]
    assert [told["nodes"], *(served[key] for key in ("program", "version", "image"))] == [None] * 4
    assert served["nodes"] == ["a1", "b1", "c1"]
    view = json.loads(run(str(tmp_path / "all.json"), "--all", "--format", "json").stdout)
    assert (view["nodes"], view["wanting"]) == (None, 0)
    total = "get it on all nodes that EndpointSlices name (nodes were not read); Services without a preference: 0"
    assert total in run(str(tmp_path / "all.json"), "--all").stdout


PROVEN = "at least 1.34 (Service shop/web has trafficDistribution PreferSameZone)"
NOT_OBSERVED = re.compile(r"all \d+ nodes|\d of \d+ nodes|kube-proxy \d|1\.3\d")


@pytest.mark.parametrize("change", [{}, {"endpoints": []}, {"ports": []}], ids=str)
@pytest.mark.parametrize("asks", ["PreferSameZone", "PreferSameNode", ""])
def test_without_nodes_no_number_or_version_is_invented(change: dict[str, object], asks: str) -> None:
    items = [{**each, **change} if each["kind"] == "EndpointSlice" else each for each in everything("nodes")]
    for each in items:
        if each["kind"] == "Service":
            each["spec"] = {**each["spec"], "trafficDistribution": asks or None}  # type: ignore[dict-item]
    text = json.dumps({"items": items})
    for arguments in (["shop/web"], ["shop/web", "--format", "json"], ["--all"], ["--all", "--format", "json"]):
        proven = PROVEN.replace("PreferSameZone", asks)
        assert not NOT_OBSERVED.search(run("-", *arguments, stdin=text).stdout.replace(proven, ""))


def test_without_nodes_a_hint_for_a_zone_without_endpoints_may_have_nodes() -> None:
    items = everything("nodes")
    items[1]["endpoints"] = [endpoint("a1", hints="z")]
    assert "hint-for-a-zone-without-nodes" not in run("-", stdin=json.dumps({"items": items})).stdout


def test_without_nodes_and_endpoints_the_cause_is_told() -> None:
    items = [{**each, "endpoints": []} if each["kind"] == "EndpointSlice" else each for each in everything("nodes")]
    result = run("-", stdin=json.dumps({"items": items}))
    said = "nodes were not read, and EndpointSlices name none: the EndpointSlices of the Service have no endpoint"
    assert result.stdout.startswith(f"Service shop/web: {said}"), result.output


def test_without_nodes_no_number_of_pods_is_supposed() -> None:
    result = run("-", "shop/web", "--if", "scale=3", stdin=json.dumps({"items": everything("nodes")}))
    assert (result.exit_code, "Nodes were not read" in result.output) == (4, True), result.output


def test_program_that_was_not_seen_is_not_named() -> None:
    told = json.loads(run("-", "shop/web", "--format", "json", stdin=json.dumps({"items": everything()})).stdout)
    (served,) = told["served_by"]
    assert [served[key] for key in ("program", "version", "image")] == [None] * 3
    assert served["says"] == (
        "not known: no pod of a service proxy was seen; predicted as kube-proxy of the release of kubelet v1.37.0"
    )
    assert told["nodes"] == 5


def info_dump(*, pods: bool = True, selector: bool = True) -> str:
    """Return the output of `kubectl cluster-info dump`: lists of nodes, Services and pods, and no EndpointSlices."""
    running = [{**pod(f"web-{place}", place), "kind": "Pod"} for place in ("a1", "b1")]
    for number, each in enumerate(running, 1):
        address = f"10.244.0.{number}"
        each["status"] |= {"phase": "Running", "podIP": address, "podIPs": [{"ip": address}]}
    lists = {"Node": everything("services", "endpointslices"), "Service": everything("nodes", "endpointslices")}
    if not selector:
        lists["Service"][0]["spec"].pop("selector")  # type: ignore[attr-defined]
    documents = {**lists, **({"Pod": running} if pods else {})}
    return "".join(
        json.dumps({"kind": f"{kind}List", "items": each}, indent=4) + "\n" for kind, each in documents.items()
    )


def test_dump_without_slices_is_predicted_from_its_pods() -> None:
    said = (
        "Service shop/web: if the EndpointSlices are as the controller writes them: connections leave their zone from 1"
    )
    result = run("-", stdin=info_dump())
    assert (result.stdout.startswith(said), result.exit_code) == (True, 1), result.output
    assert "not read  endpointslices: there are none in -; they are predicted from the pods" in result.stdout
    assert "\n  predicted ready endpoints: 1 in zone a, 1 in zone b\n" in result.stdout
    assert "\n  hints     predicted: IPv4: 2 of 2 ready endpoints hinted" in result.stdout
    told = json.loads(run("-", "shop/web", "--format", "json", stdin=info_dump()).stdout)
    assert (told["predicted"], told["causes"][0]["evidence"]) == (True, [])
    rows = json.loads(run("-", "--all", "--format", "json", stdin=info_dump()).stdout)["services"]
    assert [(each["missed"], each["failing"]) for each in rows] == [(1, False)]


@pytest.mark.parametrize(("restarts", "code"), [({"restartPolicy": "Always"}, 0), ({}, 1)])
def test_named_target_port_may_be_of_a_sidecar(restarts: dict[str, str], code: int) -> None:
    named: dict[str, object] = {"name": "proxy", "ports": [{"name": "http", "containerPort": 80}], **restarts}
    pods = [dict(pod(f"web-{place}", place), kind="Pod", apiVersion="v1") for place in ("a1", "b1")]
    for number, each in enumerate(pods, 1):
        each["spec"]["initContainers"] = [named]
        each["status"] |= {"phase": "Running", "podIP": f"10.244.0.{number}", "podIPs": [{"ip": f"10.244.0.{number}"}]}
    kept = everything("endpointslices")
    (web,) = (each for each in kept if each["kind"] == "Service")
    web["spec"]["ports"] = [{"port": 80, "targetPort": "http"}]  # type: ignore[index]
    result = run("-", "shop/web", "--fail-on=failing", stdin=yaml.safe_dump_all([*kept, *pods]))
    assert result.exit_code == code, result.output


def test_without_slices_nothing_is_claimed_about_slices_by_hand() -> None:
    result = run("-", stdin=info_dump(selector=False))
    said = "it is not known where connections go: the EndpointSlices of the Service were not read"
    assert (result.stdout.splitlines()[0], result.exit_code) == (f"Service shop/web: {said}", 0)


def test_without_slices_and_pods_the_source_is_refused() -> None:
    result = run("-", stdin=info_dump(pods=False))
    assert (result.exit_code, "it has no EndpointSlices, and no pods to" in result.output) == (4, True), result.output


def test_external_name_needs_no_slices() -> None:
    service = {
        "metadata": {"name": "web", "namespace": "shop"},
        "spec": {"type": "ExternalName", "externalName": "x.example"},
    }
    result = run("-", stdin=json.dumps({"kind": "ServiceList", "items": [service]}))
    assert "DNS sends its clients to x.example" in result.stdout.splitlines()[0], result.output


BROKEN = {
    "nothing": ("", "it has no Service"),
    "text": ("hello", "expected a list of objects"),
    "no YAML": ("a: [", "is neither JSON nor YAML"),
    "aliases": ("a: &a [1]\nb: *a", "expected YAML without aliases"),
    "depth": ("[" * 500, "expected YAML without aliases"),
    "no Service": (json.dumps({"items": everything("services")}), "kubectl get services -A -o json"),
}


@pytest.mark.parametrize(("text", "said"), BROKEN.values(), ids=BROKEN)
def test_malformed_source_is_named(text: str, said: str) -> None:
    result = run("-", stdin=text if not text.startswith("[") else f"a: {text}")
    assert (result.exit_code, said in result.output) == (4, True), result.output
