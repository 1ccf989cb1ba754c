"""`trafficdist explain` on a real API server."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
import yaml
from click.testing import CliRunner, Result

from explain import objects
from harness.api.client import Api, RefusedError, Response
from harness.backends.backend import WantedPod
from harness.backends.netns import NetnsBackend
from harness.commands.main import main
from harness.model import manifests

Explain = Callable[..., Result]


@pytest.fixture(scope="module")
def backend() -> Iterator[NetnsBackend]:
    with NetnsBackend() as backend:
        backend.api.create("namespaces", "", {"metadata": {"name": "shop"}})
        backend.api.create(
            "services", "shop", manifests.service("web", selector={"app": "web"}, trafficDistribution="PreferClose")
        )
        for node in ("a1", "b1"):
            backend.run_pods("shop", [WantedPod(f"web-{node}", node, {"app": "web"})])
        backend.settle()
        yield backend


@pytest.fixture
def explain(backend: NetnsBackend, tmp_path: Path) -> Explain:
    kubeconfig = tmp_path / "kubeconfig"
    kubeconfig.write_text(yaml.safe_dump(backend.kubeconfig()))

    def run(*arguments: str) -> Result:
        return CliRunner().invoke(
            main, ["explain", "--kubeconfig", str(kubeconfig), *arguments], env={"COLUMNS": "160"}
        )

    return run


def test_explanation_names_mechanism_safeguard_and_tiers(explain: Explain) -> None:
    result = explain("shop/web")
    assert result.exit_code == 1, result.output
    assert "trafficDistribution is PreferClose" in result.output
    assert "zone c has no endpoint" in result.output
    assert "2 of 2 ready endpoints hinted (1 for zone a, 1 for zone b)" in result.output
    assert [line.split()[:2] for line in result.output.splitlines()[-3:]] == [["a1", "a2"], ["b1", "b2"], ["c1", "c"]]


def test_unknown_service_lists_the_existing_ones(explain: Explain) -> None:
    result = explain("shop/wob")
    assert result.exit_code == 4
    assert "wob" in result.output
    assert "it has web" in result.output


def test_unknown_context_lists_the_existing_ones(explain: Explain) -> None:
    result = explain("shop/web", "--context", "other")
    assert (result.exit_code, "has no context 'other'; its contexts are: trafficdist" in result.output) == (4, True)


def test_forbidden_resource_is_named(explain: Explain, monkeypatch: pytest.MonkeyPatch) -> None:
    def forbidden(_: Api, resource: str, *__: object, **___: object) -> None:
        raise RefusedError("GET", f"/api/v1/{resource}", Response(403, {"message": f"{resource} is forbidden"}))

    monkeypatch.setattr(Api, "list", forbidden)
    for service, resource in (("shop/web", "endpointslices"), ("shop/wob", "services")):
        result = explain(service)
        assert (result.exit_code, f"403 {resource} is forbidden" in result.output) == (12, True), result.output


def test_resource_that_the_api_server_does_not_serve_is_left_out(backend: NetnsBackend) -> None:
    seen = objects.of_service(backend.api, "shop", "web")
    assert "shop" in {each["metadata"]["name"] for each in seen.further["namespaces"]}
    assert not {*objects.FURTHER} & seen.unread.keys()


def test_further_resource_that_may_not_be_read_is_named(explain: Explain, monkeypatch: pytest.MonkeyPatch) -> None:
    usual = Api.list

    def forbidden(api: Api, resource: str, *arguments: str, **options: str) -> object:
        if resource in {"namespaces", "poddisruptionbudgets"}:
            raise RefusedError("GET", resource, Response(403, {}))
        return usual(api, resource, *arguments, **options)

    monkeypatch.setattr(Api, "list", forbidden)
    said = explain("shop/web").output
    assert "not read  namespaces: 403; permission to list namespaces in all namespaces is needed" in said
    assert "poddisruptionbudgets: 403; permission to list poddisruptionbudgets in namespace shop is needed" in said


def test_missing_kubeconfig_is_reported_with_the_remedy(tmp_path: Path) -> None:
    result = CliRunner().invoke(main, ["explain", "web", "--kubeconfig", str(tmp_path / "none")])
    assert (result.exit_code, "--kubeconfig" in result.output) == (4, True)


def test_unreachable_api_server_is_a_clear_error(tmp_path: Path, backend: NetnsBackend) -> None:
    kubeconfig = backend.kubeconfig()
    kubeconfig["clusters"][0]["cluster"]["server"] = "https://127.0.0.1:1"
    (tmp_path / "kubeconfig").write_text(yaml.safe_dump(kubeconfig))
    result = CliRunner().invoke(main, ["explain", "web", "--kubeconfig", str(tmp_path / "kubeconfig")])
    assert (result.exit_code, "127.0.0.1:1" in result.output) == (12, True), result.output
