"""Tests an EndpointSlice controller that is an external program: its slices affect traffic, its exit is reported."""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Callable, Iterator
from dataclasses import replace

import pytest

from harness.backends.backend import WantedPod
from harness.backends.implementation import reference
from harness.backends.netns import NetnsBackend
from harness.errors import EndedError, StartError, UnavailableError
from harness.eventually import eventually
from harness.model import manifests
from harness.model.outcomes import Reached
from harness.model.release import CONTROLLER, Release, release
from harness.model.topology import grid
from harness.model.workloads import pod_client
from harness.netns import sandbox
from harness.probes.loop import Probe
from harness.recipes.controller import RecipeControlPlane
from harness.recipes.recipe import OF_CONTROLLER, parse_recipe

SLICES = """
import json, ssl, sys, time, urllib.request
config = json.load(open(sys.argv[1]))
token, url = config["users"][0]["user"]["token"], config["clusters"][0]["cluster"]["server"]

def ask(method, path, body=None):
    sent = {"Authorization": f"Bearer {token}", "Content-Type": "application/apply-patch+yaml", "User-Agent": "mine"}
    asked = urllib.request.Request(url + path, body and json.dumps(body).encode(), sent, method=method)
    return json.load(urllib.request.urlopen(asked, context=ssl._create_unverified_context()))

def write(service):
    owner, selector = service["metadata"], service["spec"]["selector"]
    pods = ask("GET", f"/api/v1/namespaces/{owner['namespace']}/pods")["items"]
    chosen = [pod for pod in pods if selector.items() <= (pod["metadata"].get("labels") or {}).items()]
    ips = [pod["status"]["podIP"] for pod in chosen if (pod.get("status") or {}).get("podIP")]
    ask("PATCH", f"/apis/discovery.k8s.io/v1/namespaces/{owner['namespace']}/endpointslices/{owner['name']}-mine"
        "?fieldManager=mine&force=true", {
        "apiVersion": "discovery.k8s.io/v1", "kind": "EndpointSlice", "addressType": "IPv4",
        "metadata": {"name": f"{owner['name']}-mine", "labels": {"kubernetes.io/service-name": owner["name"]}},
        "endpoints": [{"addresses": [ip], "conditions": {"ready": True}} for ip in ips],
        "ports": [{"name": "", "port": 8080, "protocol": "TCP"}]})

print("up", flush=True)
while True:
    for service in ask("GET", "/api/v1/services")["items"]:
        if service["spec"].get("selector"):
            write(service)
    time.sleep(0.05)
"""

Boot = Callable[..., NetnsBackend]


@pytest.fixture
def boot() -> Iterator[Boot]:
    booted: list[NetnsBackend] = []

    def make(script: str, **keys: object) -> NetnsBackend:
        sandbox.enter()
        command = [sys.executable, "-c", script.replace("{", "{{").replace("}", "}}"), "{kubeconfig}"]
        recipe = parse_recipe({"name": "mine", "version": "7", "command": command, "ready": [{"log": "up"}]} | keys,
                              OF_CONTROLLER)  # fmt: skip
        made = replace(reference(), control_plane=lambda each: RecipeControlPlane(each, recipe))
        booted.append(NetnsBackend(grid("one-node", {"a": 1}), implementation=made))
        return booted[-1].start()

    yield make
    for each in booted:
        each.close()


def pid_of(backend: NetnsBackend) -> int:
    plane = backend.control_plane
    assert isinstance(plane, RecipeControlPlane)
    assert plane._programs is not None
    return plane._programs._parts[0].processes.running["controller"].pid


def test_slices_of_a_program_are_used_by_the_proxy_and_its_exit_is_reported(boot: Boot) -> None:
    backend = boot(SLICES)
    assert backend.environment()["servers"]["controller"] == "mine 7"
    backend.create_namespace("mine")
    backend.run_pods("mine", [WantedPod("server", "a1", labels={"app": "web"})])
    made = backend.api.create("services", "mine", manifests.service("web", selector={"app": "web"}))
    probe = Probe(backend.namespace_of(pod_client("a1")), "TCP", made["spec"]["clusterIP"], 80)
    eventually(lambda: isinstance(backend.probe([probe])[0], Reached), describe="its slice")
    (written,) = backend.api.list("endpointslices", "mine")
    assert written["metadata"]["name"] == "web-mine"
    with pytest.raises(UnavailableError, match=r"mine has only one version, and it is not release 1\.30"):
        backend.start_component(CONTROLLER, release("1.30"), [])
    backend.stop_component(CONTROLLER, [])
    backend.start_component(CONTROLLER, Release(), [])
    os.kill(pid_of(backend), signal.SIGKILL)
    with pytest.raises(EndedError, match="mine on controller was ended by SIGKILL") as ended:
        eventually(lambda: backend.settle() < 0, describe="its end")
    assert ended.value.component == CONTROLLER


def test_controller_that_does_not_start_is_reported_with_its_first_error(boot: Boot) -> None:
    with pytest.raises(StartError, match=r"mine on controller exited with 3; .*no such flag") as raised:
        boot("import sys; print('no such flag', flush=True); sys.exit(3)")
    assert raised.value.logs["mine-controller.log"] == "no such flag\n"
