"""The published definitions of Cilium, Gateway API and Istio are served unmodified. Go modules contain them."""

from __future__ import annotations

import functools
import json
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest
import yaml

from reference.apiserver import ApiServer
from reference.client import ApiError
from tests.reference.api_server_calls import listed, patched

pytestmark = [
    pytest.mark.slow,  # Cilium's module has 100 MB
    pytest.mark.timeout(900),
    pytest.mark.skipif(shutil.which("go") is None, reason="go is not installed"),
]

MODULES = {
    "cilium": ("github.com/cilium/cilium@v1.20.2", "pkg/k8s/apis/cilium.io/client/crds/*/*.yaml", 22),
    "gateway": ("sigs.k8s.io/gateway-api@v1.6.1", "config/crd/experimental/*.yaml", 13),
    "istio": ("istio.io/api@v1.32.0", "kubernetes/customresourcedefinitions.gen.yaml", 15),
}


@functools.cache
def definitions(name: str) -> list[Any]:
    module, files, _ = MODULES[name]
    command = ["go", "mod", "download", "-json", module]
    got = subprocess.run(command, cwd="/", capture_output=True, text=True, check=False)
    if got.returncode:
        pytest.skip(f"{module} cannot be downloaded: {got.stdout[-300:]}{got.stderr[-300:]}")
    found = []
    for path in sorted(Path(json.loads(got.stdout)["Dir"]).glob(files)):
        documents = yaml.load_all(path.read_text(encoding="utf-8"), getattr(yaml, "CSafeLoader", yaml.SafeLoader))
        found += [each for each in documents if each and each.get("kind") == "CustomResourceDefinition"]
    return found


@pytest.fixture
def serving(api: ApiServer, request: pytest.FixtureRequest) -> ApiServer:
    """The API server, with the definitions of the module of each mark's argument."""
    for each in request.param:
        for definition in definitions(each):
            api.create("customresourcedefinitions", "", definition)
    return api


def serve(*names: str) -> Any:
    return pytest.mark.parametrize("serving", [names], indirect=True, ids=["-".join(names)])


@pytest.mark.parametrize("name", MODULES)
def test_definitions_are_served_in_every_version(api: ApiServer, http: Any, name: str) -> None:
    found = definitions(name)
    assert len(found) == MODULES[name][2]
    for each in found:
        api.create("customresourcedefinitions", "", each)
        spec = each["spec"]
        for version in spec["versions"]:
            path = f"/apis/{spec['group']}/{version['name']}/{spec['names']['plural']}"
            assert http("GET", path)[0] == (200 if version["served"] else 404)


@serve("cilium")
def test_cilium_writes_its_node_and_status(serving: ApiServer) -> None:
    addresses = [{"type": "InternalIP", "ip": "192.0.2.1"}]
    node = serving.create("ciliumnodes.cilium.io", "", {"metadata": {"name": "a1"}, "spec": {"addresses": addresses}})
    assert node["spec"]["addresses"] == addresses
    status = {"status": {"ipam": {"used": {"10.0.0.1": {"owner": "router"}}}}}
    made = patched(serving, "ciliumnodes.cilium.io", "", "a1", status, subresource="status")
    assert made["status"]["ipam"]["used"]["10.0.0.1"]["owner"] == "router"


@serve("gateway", "istio")
def test_gateways_of_istio_and_of_gateway_api_stand_side_by_side(serving: ApiServer, http: Any) -> None:
    listener = {"name": "http", "port": 80, "protocol": "HTTP"}
    spec = {"gatewayClassName": "x", "listeners": [listener]}
    made = serving.create("gateways.gateway.networking.k8s.io", "default", {"metadata": {"name": "one"}, "spec": spec})
    assert made["spec"]["listeners"][0]["allowedRoutes"] == {"namespaces": {"from": "Same"}}
    server = {"port": {"number": 80, "name": "http", "protocol": "HTTP"}, "hosts": ["*"]}
    serving.create(
        "gateways.networking.istio.io", "default", {"metadata": {"name": "two"}, "spec": {"servers": [server]}}
    )
    for version in ("v1", "v1beta1", "v1alpha3"):
        code, found = http("GET", f"/apis/networking.istio.io/{version}/namespaces/default/gateways/two")
        assert (code, found["apiVersion"]) == (200, f"networking.istio.io/{version}")
    names = [each["metadata"]["name"] for each in listed(serving, "gateways.gateway.networking.k8s.io")]
    assert names == ["one"]


@serve("gateway")
def test_route_gets_the_defaults_of_its_schema_and_is_validated(serving: ApiServer) -> None:
    rule = {"backendRefs": [{"name": "web", "port": 80}]}
    route = {"metadata": {"name": "web"}, "spec": {"parentRefs": [{"name": "one"}], "rules": [rule]}}
    made = serving.create("httproutes.gateway.networking.k8s.io", "default", route)
    assert made["spec"]["rules"][0]["matches"] == [{"path": {"type": "PathPrefix", "value": "/"}}]
    assert made["spec"]["rules"][0]["backendRefs"][0]["weight"] == 1
    route["spec"] = {"hostnames": ["Not a host"]}
    with pytest.raises(ApiError, match=r"spec.hostnames\[0\] in body should match"):
        serving.create("httproutes.gateway.networking.k8s.io", "default", {**route, "metadata": {"name": "two"}})
