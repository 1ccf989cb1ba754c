"""The overview of all Services, and explanations from recorded files."""

from __future__ import annotations

import json
from dataclasses import replace
from html.parser import HTMLParser
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from explain import dump
from explain import objects as files
from explain.cluster import Cluster
from explain.diagnosis import diagnose
from explain.objects import Objects
from explain.overview import FORMATS, overview
from harness.api.client import Object
from harness.commands.main import main
from harness.errors import UsageError
from tests.explain.cluster_builders import (
    EACH_ZONE,
    agent,
    autoscaler,
    budget,
    deployment,
    endpoint,
    ingress,
    namespace,
    objects,
    of_slice,
    owned,
    pod,
    proxy,
    service,
    unhinted,
)
from tests.explain.recorded_cases import NODE_PORT


def named(name: str, of: Object) -> Object:
    return {**of, "metadata": {**of["metadata"], "name": name}}


def shop(**more: object) -> Objects:
    """Return four Services. Three request topology-aware routing, and one of the three is healthy."""
    asked = service()
    services = [named("well", asked), named("one", asked), named("none", asked), named("silent", service(asks=""))]
    slices = [
        of_slice(*EACH_ZONE, service="well"),
        of_slice(endpoint("a1"), endpoint("b1"), service="one"),
        of_slice(endpoint("a1", ready=False), service="none"),
        of_slice(*EACH_ZONE, service="silent"),
    ]
    return replace(objects(asked, *slices, pods=[owned("web-a1", "a1")]), services=services, **more)  # type: ignore[arg-type]


def run(*arguments: str) -> Result:
    return CliRunner().invoke(main, ["explain", *arguments], env={"COLUMNS": "160"})


def test_services_with_most_problems_come_first_and_those_without_a_preference_are_counted() -> None:
    view = overview(Cluster(shop(), "released"))
    assert [(each.service, each.missed, each.cause) for each in view.rows] == [
        ("shop/none", 5, "no-ready-endpoint"),
        ("shop/one", 1, "zone-without-endpoint"),
        ("shop/well", 0, ""),
    ]
    assert (view.wanting, view.silent) == (2, 1)
    assert "2 of 3 Services that request topology do not get it on all nodes: 6 of 15 pairs" in view.total


def test_failing_service_is_shown_although_it_asks_for_nothing(tmp_path: Path) -> None:
    asked = service({}, asks="", type="NodePort", externalTrafficPolicy="Local", ports=NODE_PORT)
    files.write(objects(asked, of_slice(*unhinted("a1", "b1", "c1"))), tmp_path)
    codes = [run("--all", "--from", str(tmp_path), "--fail-on", each).exit_code for each in ("crossing", "failing")]
    (row,) = overview(Cluster(dump.read(str(tmp_path)), "released")).rows
    assert (row.asks, row.missed, row.cause, codes) == ("", 2, "external-clients-dropped", [1, 1])
    said = run("--all", "--from", str(tmp_path)).stdout
    assert "0 of 0 Services that request topology do not get it on all nodes" in said
    assert "Services without a preference: 1, of which 1 fail" in said


def test_overview_can_be_limited_to_one_namespace() -> None:
    assert overview(Cluster(shop(), "released"), "other").rows == ()


def test_unreadable_service_is_a_row_and_not_an_error() -> None:
    odd = replace(shop(), services=[*shop().services, {"metadata": {"name": "odd", "namespace": "shop"}}])
    rows = {each.service: each for each in overview(Cluster(odd, "released")).rows}
    assert "cannot be read" in rows["shop/odd"].says
    assert len(rows) == 4


@pytest.mark.parametrize("form", FORMATS)
def test_each_format_has_every_row_and_unread_resource(form: str) -> None:
    said = FORMATS[form](overview(Cluster(shop(unread={"events": "403"}), "released")))
    assert all(each in said for each in ("shop/none", "shop/one", "shop/well", "zone-without-endpoint", "403"))


@pytest.mark.parametrize(("form", "hidden"), [("html", "<b>|`"), ("md", "<b>|`")])
def test_foreign_text_is_escaped(form: str, hidden: str) -> None:
    asked = service(asks=hidden)
    said = FORMATS[form](overview(Cluster(objects(asked), "released")))
    assert hidden not in said
    assert "<b>" not in said


def test_the_page_is_well_formed() -> None:
    open_now: list[str] = []

    class TagMatcher(HTMLParser):
        def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
            if tag != "meta":
                open_now.append(tag)

        def handle_endtag(self, tag: str) -> None:
            assert open_now.pop() == tag

    TagMatcher().feed(FORMATS["html"](overview(Cluster(shop(), "released"))))
    assert open_now == []


def test_recording_has_the_same_explanation_as_the_cluster(tmp_path: Path) -> None:
    known = {"gates": {"kube-apiserver": {"PreferSameTrafficDistribution": False}}, "at": "2026-11-22T10:00:00Z"}
    seen = shop(**known, proxies=[proxy("a1", "v1.30.1")], pods=[owned("web-a1", "a1"), proxy("a1", "v1.30.1")])
    files.write(seen, tmp_path)
    again = dump.read(str(tmp_path))
    assert overview(Cluster(again, "released")) == overview(Cluster(seen, "released"))
    assert Cluster(again, "released").nodes == Cluster(seen, "released").nodes
    assert (again.gates, again.at) == (seen.gates, seen.at)


def test_only_the_pod_fields_in_use_are_recorded(tmp_path: Path) -> None:
    secret = pod("web-1", "a1")
    secret["spec"]["containers"] = [{"name": "web", "image": "web:1", "env": [{"name": "KEY", "value": "hidden"}]}]
    secret["metadata"]["annotations"] = {"key": "hidden"}
    files.write(shop(pods=[secret]), tmp_path)
    assert not [each for each in tmp_path.iterdir() if "hidden" in each.read_text()]
    assert "web:1" in (tmp_path / "pods.json").read_text()


def test_recording_has_only_the_used_fields_of_further_objects(tmp_path: Path) -> None:
    whole = deployment(3, 3)
    whole["spec"]["template"] = {"spec": {"containers": [{"env": [{"name": "KEY", "value": "hidden"}]}]}}
    enrolled = namespace(annotations={"linkerd.io/inject": "enabled", "key": "hidden"})
    found = {
        "namespaces": [enrolled],
        "ingresses": [ingress("nginx", {"key": "hidden"})],
        "deployments": [whole],
        "horizontalpodautoscalers": [autoscaler(1, 9)],
        "poddisruptionbudgets": [budget(1, maxUnavailable=1)],
    }
    seen = objects(pods=[owned("web-a1", "a1")], further=found)
    files.write(seen, tmp_path)
    assert not [each for each in tmp_path.iterdir() if "hidden" in each.read_text()]
    again = Cluster(dump.read(str(tmp_path)), "released")
    causes = {each.cause.id for each in diagnose(seen.services[0], again).findings}
    assert causes == {
        "namespace-injects-sidecars", "ingress-to-endpoints", "autoscaler-below-zones", "budget-permits-an-empty-zone"
    }  # fmt: skip


def test_recording_does_not_overwrite_files(tmp_path: Path) -> None:
    files.write(shop(), tmp_path)
    with pytest.raises(UsageError, match="File exists"):
        files.write(shop(), tmp_path)


BROKEN = {
    "no Services": ("services.json", "", "kubectl get services -A -o json"),
    "no JSON": ("services.json", "{", "services.json"),
    "a list": ("services.json", "[]", "expected a list of objects"),
    "no objects": ("endpointslices.json", '{"items": [5]}', "expected a list of objects"),
    "no names": ("nodes.json", '{"items": [{"metadata": {}}]}', "expected a list of objects"),
    "no version": ("version.json", "5", "kubectl version -o json"),
    "no gates": ("gates.json", '{"kube-apiserver": 5}', "expected feature gates like"),
    "no spec": ("services.json", '{"items": [{"metadata": {"name": "web", "namespace": "shop"}}]}', "cannot be read"),
}


@pytest.mark.parametrize(("name", "text", "said"), BROKEN.values(), ids=BROKEN)
def test_invalid_recording_is_named_and_refused(name: str, text: str, said: str, tmp_path: Path) -> None:
    files.write(objects(), tmp_path)
    (tmp_path / name).unlink(missing_ok=True)
    if text:
        (tmp_path / name).write_text(text)
    result = run("shop/web", "--from", str(tmp_path))
    assert (result.exit_code, said in result.output) == (4, True), result.output


def test_exit_code_shows_whether_all_services_get_their_preference(tmp_path: Path) -> None:
    files.write(objects(), tmp_path / "well")
    files.write(shop(), tmp_path / "ill")
    assert [run("--all", "--from", str(tmp_path / each)).exit_code for each in ("well", "ill")] == [0, 1]
    codes = {
        (name, fail_on): run(f"shop/{name}", "--from", str(tmp_path / "ill"), "--fail-on", fail_on).exit_code
        for name in ("well", "one", "none")
        for fail_on in ("crossing", "failing", "never")
    }
    assert {pair for pair, code in codes.items() if code} == {
        ("one", "crossing"), ("none", "crossing"), ("none", "failing")
    }  # fmt: skip
    assert set(codes.values()) == {0, 1}


@pytest.mark.parametrize(
    "arguments", [(), ("web", "--all"), ("web", "--format", "md"), ("web", "--namespace", "shop"), ("--from", "x")]
)
def test_incompatible_options_are_refused(arguments: tuple[str, ...]) -> None:
    assert run(*arguments).exit_code == 4


def test_one_service_is_explained_as_json(tmp_path: Path) -> None:
    files.write(shop(), tmp_path)
    told = json.loads(run("shop/one", "--from", str(tmp_path), "--format", "json").output)
    assert (told["crossing"], [each["id"] for each in told["causes"]]) == (["c1"], ["zone-without-endpoint"])
    assert (told["gates"], [*told["unread"]]) == ({}, [])
    assert told["served_by"] == [
        {
            "program": None,
            "version": None,
            "image": None,
            "says": "not known: no pod of a service proxy was seen; "
            "predicted as kube-proxy of the release of kubelet v1.37.0",
            "nodes": ["a1", "a2", "b1", "b2", "c1"],
        }
    ]


def test_format_has_the_short_option_of_kubectl(tmp_path: Path) -> None:
    files.write(shop(), tmp_path)
    for arguments in (("shop/one",), ("--all",)):
        short, long = (
            run(*arguments, "--from", str(tmp_path), *option) for option in (["-o", "json"], ["--format=json"])
        )
        assert short.stdout == long.stdout


@pytest.mark.parametrize("arguments", [("shop/web",), ("--all",)])
def test_text_of_a_cluster_has_no_emoji(arguments: tuple[str, ...], tmp_path: Path) -> None:
    """Rich writes an emoji for a name between colons, as in an image by digest."""
    asked = service(asks="", selector={"app": ":abc:"})
    asked["metadata"]["annotations"] = {"service.kubernetes.io/topology-mode": ":abc:"}
    files.write(
        objects(asked, of_slice(), pods=[pod("web-1", "a1", app=":abc:"), proxy("a1", ":abc: v1.37.0")]), tmp_path
    )
    said = run(*arguments, "--from", str(tmp_path)).stdout
    assert ":abc:" in said
    assert said.isascii()


def test_answer_says_what_serves_each_node_and_how_that_is_known(tmp_path: Path) -> None:
    cilium = agent("b1", "cilium", "quay.io/cilium/cilium:v1.18.0", k8s_app="cilium")
    pods = [owned("web-a1", "a1"), proxy("a1", "v1.36.2"), cilium]
    files.write(replace(objects(), pods=pods), tmp_path)
    said = run("shop/web", "--from", str(tmp_path)).output
    predicted = "predicted as kube-proxy of the release of kubelet v1.37.0"
    assert [line.strip() for line in said.splitlines() if "served by" in line] == [
        "served by kube-proxy 1.36.2, by its image registry.k8s.io/kube-proxy:v1.36.2: a1",
        f"served by not known: no pod of a service proxy was seen; {predicted}: a2 b2 c1",
        "served by Cilium 1.18.0, by its image quay.io/cilium/cilium:v1.18.0: b1",
    ]
