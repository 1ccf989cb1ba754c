"""Pods that are created through the API start, report their status, and end as with the real kubelet."""

from __future__ import annotations

import asyncio
import contextlib
import os
import shutil
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

import pytest

from emulator.kube_dns import KubeDns
from emulator.kubelet.images import EMULATED_AGNHOST
from emulator.kubelet.kubelet import Kubelet
from emulator.kubelet.running_container import RunningContainer
from emulator.kubelet.sandbox import PATH, Sandbox
from emulator.kubelet.standard_streams import StandardStreams
from harness.api.client import Api
from harness.backends.netns import NetnsBackend
from harness.errors import UnavailableError
from harness.eventually import eventually
from harness.model import manifests
from harness.model.release import Release
from harness.model.topology import grid
from harness.netns import http
from harness.netns.fabric import NetworkPeer
from harness.netns.namespace import Namespace
from harness.settings.implementations import of_settings
from harness.settings.options import resolve
from tests.emulator.kubelet.program_waits import wait

Object = dict[str, Any]
Create = Callable[..., Object]

SECRET = {"name": "X", "valueFrom": {"secretKeyRef": {"name": "a", "key": "b"}}}
NETEXEC = ("netexec", "--http-port=8080", "--udp-port=8080")


@pytest.fixture(scope="module")
def backend() -> Iterator[NetnsBackend]:
    """A network of two zones with one node each, and a kubelet."""
    with NetnsBackend(grid("two", {"a": 1, "b": 1})) as booted:
        yield booted


@pytest.fixture
def hosts() -> dict[tuple[str, str], NetworkPeer]:
    """The pods that have a netns. The kubelet updates this mapping."""
    return {}


@pytest.fixture
def api(backend: NetnsBackend, hosts: dict[tuple[str, str], NetworkPeer]) -> Iterator[Api]:
    """The API of a cluster with a kubelet. The fixture deletes all pods after the test."""

    def changed(now: dict[tuple[str, str], NetworkPeer]) -> None:
        hosts.clear()
        hosts.update(now)

    with Kubelet(backend.kubeconfig(), backend.network, changed=changed):
        yield backend.api
        for pod in backend.api.list("pods", "default"):
            backend.api.delete("pods", "default", pod["metadata"]["name"], grace_seconds=0)
        eventually(lambda: not hosts, describe="all pods to be deleted")


def server(name: str, node: str = "a1", *arguments: str, **spec: Any) -> Object:
    """Return a pod with one container: a server with a readiness probe."""
    container = {
        "name": "server",
        "image": EMULATED_AGNHOST,
        "args": [*NETEXEC, *arguments],
        "readinessProbe": {"httpGet": {"path": "/healthz", "port": 8080}},
    }
    return {"metadata": {"name": name}, "spec": {"nodeName": node, "containers": [container], **spec}}


def condition(pod: Object, kind: str) -> str:
    found = [each["status"] for each in (pod["status"].get("conditions") or ()) if each["type"] == kind]
    return found[0] if found else ""


def has_ready(wanted: str, pod: Object) -> bool:
    return condition(pod, "Ready") == wanted


def becomes(api: Api, name: str, check: Callable[[Object], Any]) -> Object:
    """Wait until a pod passes the check, and return it."""

    def look() -> Object | None:
        pod = api.get("pods", "default", name)
        return pod if check(pod) else None

    return eventually(look, describe=f"pod {name} to become so")


def run(api: Api, pod: Object) -> Object:
    """Create a pod, and wait until it is ready."""
    api.create("pods", "default", pod)
    return becomes(api, pod["metadata"]["name"], lambda seen: condition(seen, "Ready") == "True")


def ask(backend: NetnsBackend, address: str, path: str = "/hostname", *, of: str = "b1") -> str:
    return http.get(backend.network.nodes[of].namespace, address, 8080, path).text


def is_deleted(api: Api, name: str) -> bool:
    return api.request("GET", f"/api/v1/namespaces/default/pods/{name}").code == 404


def state(pod: Object) -> Object:
    found: Object = pod["status"]["containerStatuses"][0]["state"]
    return found


def test_a_created_pod_runs_and_answers_by_its_name(backend: NetnsBackend, api: Api) -> None:
    status = run(api, server("web"))["status"]
    addresses = [each["ip"] for each in status["podIPs"]]
    assert (status["phase"], status["podIP"], status["hostIP"]) == ("Running", addresses[0], "10.0.0.2")
    assert [ask(backend, address) for address in addresses] == ["web", "web"]


def test_host_name_of_the_spec_wins(backend: NetnsBackend, api: Api) -> None:
    pod = run(api, server("web", hostname="web--default"))
    assert ask(backend, pod["status"]["podIP"]) == "web--default"


def test_a_host_network_pod_serves_on_its_node(backend: NetnsBackend, api: Api) -> None:
    pod = run(api, server("web", "b1", hostNetwork=True))
    assert pod["status"]["podIPs"] == pod["status"]["hostIPs"]
    assert ask(backend, pod["status"]["podIP"], of="a1") == "b1"


def test_a_service_reaches_pods_that_were_created_through_the_api(backend: NetnsBackend, api: Api) -> None:
    pod = server("web")
    pod["metadata"]["labels"] = {"app": "web"}
    run(api, pod)
    client = run(api, server("client", "b1"))
    ports = [{"name": "u", "port": 80, "targetPort": 8080, "protocol": "UDP"}]
    service = {"metadata": {"name": "web"}, "spec": {"selector": {"app": "web"}, "ports": ports}}
    address = api.create("services", "default", service)["spec"]["clusterIP"]
    backend.settle()
    asked = f"/dial?host={address}&port=80&protocol=udp&request=hostname&tries=3"
    assert ask(backend, client["status"]["podIP"], asked) == '{"responses":["web","web","web"]}'


def test_twenty_pods_become_ready(api: Api) -> None:
    for number in range(20):
        api.create("pods", "default", server(f"web-{number}", "a1" if number % 2 else "b1"))
    eventually(
        lambda: all(condition(pod, "Ready") == "True" for pod in api.list("pods", "default")),
        describe="20 pods to be ready",
    )


def test_readiness_gates_are_set_by_others(api: Api) -> None:
    api.create("pods", "default", server("web", readinessGates=[{"conditionType": "trafficdist.dev/ready"}]))
    becomes(api, "web", lambda pod: condition(pod, "ContainersReady") == "True" and condition(pod, "Ready") == "False")
    for wanted in ("True", "False"):
        gate = {"type": "trafficdist.dev/ready", "status": wanted}
        body = {"status": {"conditions": [gate]}}
        path = "/api/v1/namespaces/default/pods/web/status"
        assert api.request("PATCH", path, body, content_type="application/strategic-merge-patch+json").code == 200
        becomes(api, "web", partial(has_ready, wanted))


def test_a_pod_whose_probe_fails_runs_unready(api: Api) -> None:
    pod = server("web", "a1")
    pod["spec"]["containers"][0]["readinessProbe"]["httpGet"]["port"] = 9
    api.create("pods", "default", pod)
    seen = becomes(api, "web", lambda pod: condition(pod, "Ready"))
    assert (seen["status"]["phase"], condition(seen, "Ready")) == ("Running", "False")


def test_a_pod_ends_when_its_containers_have(api: Api, hosts: dict[tuple[str, str], NetworkPeer]) -> None:
    run(api, server("web"))
    api.delete("pods", "default", "web")
    eventually(lambda: is_deleted(api, "web") and not hosts, describe="the pod to be deleted")


def test_a_terminating_pod_serves_and_stays_ready(backend: NetnsBackend, api: Api) -> None:
    address = run(api, server("web", "a1", "--delay-shutdown=1"))["status"]["podIP"]
    api.delete("pods", "default", "web")
    pod = api.get("pods", "default", "web")
    assert ask(backend, address) == "web"
    assert (bool(pod["metadata"]["deletionTimestamp"]), condition(pod, "Ready")) == (True, "True")
    eventually(lambda: is_deleted(api, "web"), describe="the pod to be deleted")


def test_each_container_ends_after_its_own_hook(backend: NetnsBackend, api: Api) -> None:
    pod = server("web")
    first, second = pod["spec"]["containers"][0], dict(pod["spec"]["containers"][0])
    first["lifecycle"] = {"preStop": {"sleep": {"seconds": 1}}}
    second |= {"name": "other", "args": ["netexec", "--http-port=9090", "--udp-port=9090"]}
    pod["spec"]["containers"].append(second)
    address = run(api, pod)["status"]["podIP"]
    api.delete("pods", "default", "web")
    becomes(api, "web", lambda seen: "terminated" in seen["status"]["containerStatuses"][1]["state"])
    assert ask(backend, address) == "web"
    eventually(lambda: is_deleted(api, "web"), describe="the pod to be deleted")


def test_grace_period_limits_container_shutdown(api: Api) -> None:
    run(api, server("web", "a1", "--delay-shutdown=60", terminationGracePeriodSeconds=1))
    api.delete("pods", "default", "web")
    eventually(lambda: is_deleted(api, "web"), describe="the pod to be deleted")


def test_forced_deletion_ends_a_pod_immediately(
    backend: NetnsBackend, api: Api, hosts: dict[tuple[str, str], NetworkPeer]
) -> None:
    run(api, server("web", "a1", "--delay-shutdown=60"))
    api.delete("pods", "default", "web", grace_seconds=0)
    eventually(lambda: not hosts, describe="its netns to be removed")


@pytest.mark.parametrize(
    ("container", "reason"),
    [
        ({"image": "nginx:1.29"}, "ErrImagePull"),
        ({"command": ["no-such-program"]}, "RunContainerError"),
        ({"env": [SECRET]}, "CreateContainerConfigError"),
        ({"args": ["netexec", "--no-such-flag"]}, "CrashLoopBackOff"),
    ],
)
def test_pod_that_cannot_run_has_a_reason(api: Api, container: Object, reason: str) -> None:
    pod = server("web")
    pod["spec"]["containers"][0] |= container
    api.create("pods", "default", pod)
    seen = becomes(api, "web", lambda pod: pod["status"].get("containerStatuses"))
    assert (state(seen)["waiting"]["reason"], condition(seen, "Ready")) == (reason, "False")


@pytest.fixture
def kubelet(backend: NetnsBackend) -> Iterator[Kubelet]:
    """A kubelet that can run programs in sandboxes. The fixture deletes all pods after the test."""
    with Namespace.create() as namespace, contextlib.closing(Sandbox(namespace, hostname="x")) as tried:
        try:
            wait(tried.start(["true"], env={"PATH": PATH}, stdin=0, stdout=1, stderr=2))
        except UnavailableError as error:
            pytest.skip(str(error))
    with Kubelet(backend.kubeconfig(), backend.network, dns="10.96.0.10") as running:
        yield running
        for pod in backend.api.list("pods", "default"):
            backend.api.delete("pods", "default", pod["metadata"]["name"], grace_seconds=0)


def script(text: str, name: str = "job", **spec: Any) -> Object:
    """Return a pod that runs a shell script."""
    container = {"name": "job", "image": "busybox", "command": ["/bin/sh", "-c", text], **spec.pop("container", {})}
    return {"metadata": {"name": name}, "spec": {"nodeName": "a1", "containers": [container], **spec}}


def container_of(kubelet: Kubelet, pod: str = "job", name: str = "job") -> RunningContainer | None:
    running = kubelet.pod("default", pod)
    return None if running is None else running.container(name)


def logged(kubelet: Kubelet, name: str = "job", *, previous: bool = False) -> str:
    container = container_of(kubelet, name)
    assert container is not None
    log = container.previous_log if previous else container.log
    return "" if log is None else b"".join(line.shown() for line in log.lines()).decode()


def test_a_script_runs_with_its_environment_and_is_logged(backend: NetnsBackend, kubelet: Kubelet) -> None:
    env = [
        {"name": "NODE", "valueFrom": {"fieldRef": {"fieldPath": "spec.nodeName"}}},
        {"name": "ON", "value": "on $(NODE)"},
    ]
    pod = script("echo $HOSTNAME $ON $0; cat /etc/resolv.conf >&2", restartPolicy="Never")
    pod["spec"]["containers"][0] |= {"env": env, "args": ["$(ON)"]}
    backend.api.create("pods", "default", pod)
    ended = becomes(backend.api, "job", lambda seen: seen["status"].get("phase") == "Succeeded")
    assert (state(ended)["terminated"]["reason"], state(ended)["terminated"]["exitCode"]) == ("Completed", 0)
    assert sorted(logged(kubelet).splitlines()) == sorted(
        [
            "job on a1 on a1",
            "search default.svc.cluster.local svc.cluster.local cluster.local",
            "nameserver 10.96.0.10",
            "options ndots:5",
        ]
    )


@pytest.mark.skipif(shutil.which("ping", path=PATH) is None, reason="ping is not installed")
def test_script_can_ping(backend: NetnsBackend, kubelet: Kubelet) -> None:
    address = run(backend.api, server("web", "b1"))["status"]["podIP"]
    backend.api.create("pods", "default", script(f"ping -c 1 -W 2 {address}", restartPolicy="Never"))
    becomes(backend.api, "job", lambda seen: seen["status"].get("phase") == "Succeeded")


def test_a_script_may_use_any_port(backend: NetnsBackend, kubelet: Kubelet) -> None:
    text = "cat /proc/sys/net/ipv4/ip_unprivileged_port_start"
    backend.api.create("pods", "default", script(text, restartPolicy="Never"))
    becomes(backend.api, "job", lambda seen: seen["status"].get("phase") == "Succeeded")
    assert logged(kubelet) == "0\n"


def waits_after(restarts: int, pod: Object) -> bool:
    known = pod["status"].get("containerStatuses") or []
    return bool(known) and "waiting" in known[0]["state"] and known[0]["restartCount"] == restarts


def test_a_script_that_fails_is_started_again_after_a_pause(backend: NetnsBackend, kubelet: Kubelet) -> None:
    backend.api.create("pods", "default", script("echo here; exit 3"))
    seen = becomes(backend.api, "job", partial(waits_after, 1))
    status = seen["status"]["containerStatuses"][0]
    assert (state(seen)["waiting"]["reason"], status["lastState"]["terminated"]["exitCode"]) == ("CrashLoopBackOff", 3)
    assert state(seen)["waiting"]["message"].startswith("back-off 10s")
    assert logged(kubelet, previous=True) == "here\n"


def test_a_script_that_succeeds_is_not_started_again_on_failure_only(backend: NetnsBackend, kubelet: Kubelet) -> None:
    backend.api.create("pods", "default", script("exit 0", restartPolicy="OnFailure"))
    becomes(backend.api, "job", lambda seen: seen["status"].get("phase") == "Succeeded")


def test_missing_program_is_reported_as_a_start_error(backend: NetnsBackend, kubelet: Kubelet) -> None:
    backend.api.create("pods", "default", script("", restartPolicy="Never", container={"command": ["no-such"]}))
    seen = becomes(backend.api, "job", lambda pod: pod["status"].get("phase") == "Failed")
    ended = state(seen)["terminated"]
    assert (ended["reason"], ended["exitCode"], ended["startedAt"]) == ("StartError", 128, "1970-01-01T00:00:00Z")
    assert ended["message"].endswith('exec: "no-such": executable file not found in $PATH')


def test_program_that_cannot_start_backs_off_like_a_crashing_one(backend: NetnsBackend, kubelet: Kubelet) -> None:
    backend.api.create("pods", "default", script("", container={"command": ["no-such"]}))
    becomes(backend.api, "job", partial(waits_after, 1))
    seen = becomes(backend.api, "job", lambda pod: state(pod)["waiting"]["reason"] == "CrashLoopBackOff")
    assert seen["status"]["containerStatuses"][0]["lastState"]["terminated"]["reason"] == "StartError"


def test_a_script_gets_sigterm_and_sigkill_after_its_grace_period(backend: NetnsBackend, kubelet: Kubelet) -> None:
    text = "trap 'echo terminated' TERM; echo up; while :; do sleep 0.1; done"
    backend.api.create("pods", "default", script(text, terminationGracePeriodSeconds=1))
    eventually(lambda: container_of(kubelet) and "up" in logged(kubelet), describe="the script to run")
    container = container_of(kubelet)
    assert container is not None
    backend.api.delete("pods", "default", "job")
    eventually(lambda: "terminated" in logged(kubelet), describe="SIGTERM to arrive")
    eventually(lambda: is_deleted(backend.api, "job"), describe="the pod to be deleted")
    assert container.state.state["terminated"]["exitCode"] == 137


def test_programs_run_next_to_the_emulated_agnhost_in_its_pod(backend: NetnsBackend, kubelet: Kubelet) -> None:
    run(backend.api, server("web"))
    container = container_of(kubelet, "web", "server")
    assert container is not None
    with contextlib.closing(StandardStreams(["stdout"])) as streams:
        process = container.exec(["/bin/sh", "-c", "echo $HOSTNAME; exit 4"], streams)
        assert wait(process) == 4
        process.close()
        with os.fdopen(streams.take("stdout"), "rb", 0) as output:
            assert output.read(100) == b"web\n"
    assert container_of(kubelet, "web", "none") is None
    assert kubelet.pod("default", "none") is None


def test_a_probe_runs_a_program_in_the_container(backend: NetnsBackend, kubelet: Kubelet) -> None:
    probe = {"exec": {"command": ["/bin/sh", "-c", "test -e /tmp/ready"]}, "periodSeconds": 1}
    container = {"name": "job", "image": "busybox", "args": ["sleep", "600"], "readinessProbe": probe}
    backend.api.create("pods", "default", script("", container={**container, "command": None}))
    becomes(backend.api, "job", partial(has_ready, "False"))
    running = container_of(kubelet)
    assert running is not None
    code = asyncio.run(running.run_in_sandbox(["/bin/sh", "-c", "echo > /tmp/ready"]))
    becomes(backend.api, "job", partial(has_ready, "True"))
    assert code == 0


@pytest.mark.skipif(shutil.which("bash", path=PATH) is None, reason="bash is not installed")
def test_init_containers_run_before_the_others_and_sidecars_next_to_them(
    backend: NetnsBackend, kubelet: Kubelet
) -> None:
    first = {"name": "first", "image": "busybox", "args": ["/bin/sh", "-c", "echo first"]}
    side = {
        "name": "side",
        "image": EMULATED_AGNHOST,
        "args": ["netexec", "--http-port=8090"],
        "restartPolicy": "Always",
    }
    ask_it = "exec 3<>/dev/tcp/127.0.0.1/8090; echo reached"
    pod = script("", restartPolicy="Never", initContainers=[first, side], container={"command": ["bash", "-c", ask_it]})
    backend.api.create("pods", "default", pod)
    status = becomes(backend.api, "job", lambda seen: seen["status"].get("phase") == "Succeeded")["status"]
    assert logged(kubelet) == "reached\n"
    assert [each["name"] for each in status["initContainerStatuses"]] == ["first", "side"]
    assert status["initContainerStatuses"][0]["state"]["terminated"]["exitCode"] == 0
    becomes(backend.api, "job", lambda seen: "terminated" in seen["status"]["initContainerStatuses"][1]["state"])


def test_pod_whose_init_container_fails_never_starts(backend: NetnsBackend, kubelet: Kubelet) -> None:
    first = {"name": "first", "image": "busybox", "args": ["/bin/sh", "-c", "exit 1"]}
    backend.api.create("pods", "default", script("echo here", restartPolicy="Never", initContainers=[first]))
    seen = becomes(backend.api, "job", lambda pod: pod["status"].get("phase") == "Failed")
    assert state(seen)["waiting"]["reason"] == "PodInitializing"
    assert condition(seen, "Initialized") == "False"


def test_a_hook_runs_a_program_before_sigterm(backend: NetnsBackend, kubelet: Kubelet) -> None:
    hook = {"preStop": {"exec": {"command": ["/bin/sh", "-c", "echo > /tmp/hook-ran"]}}}
    text = "trap 'ls /tmp; exit' TERM; echo up; while :; do sleep 0.1; done"
    backend.api.create("pods", "default", script(text, container={"lifecycle": hook}))
    eventually(lambda: container_of(kubelet) and "up" in logged(kubelet), describe="the script to run")
    container = container_of(kubelet)
    assert container is not None
    log = container.log
    assert log is not None
    backend.api.delete("pods", "default", "job")
    eventually(lambda: is_deleted(backend.api, "job"), describe="the pod to be deleted")
    assert [line.text for line in log.lines()] == [b"up", b"hook-ran"]


@pytest.mark.skipif(shutil.which("getent", path=PATH) is None, reason="getent is not installed")
def test_names_of_services_resolve_in_pods(backend: NetnsBackend, kubelet: Kubelet) -> None:
    service = manifests.service("shop", selector={"app": "shop"})
    address = backend.api.create("services", "default", service)["spec"]["clusterIP"]
    dns = KubeDns(backend.kubeconfig(), backend.api, backend.network)
    with dns.served():
        backend.settle()
        text = "for name in shop shop.default kube-dns.kube-system; do getent ahostsv4 $name | grep -m 1 STREAM; done"
        backend.api.create("pods", "default", script(text, restartPolicy="Never"))
        becomes(backend.api, "job", lambda seen: seen["status"].get("phase") == "Succeeded")
    assert [line.split()[0] for line in logged(kubelet).splitlines()] == [address, address, dns.address]


def test_recreated_pod_with_the_same_name_is_a_new_pod(api: Api) -> None:
    before = run(api, server("web"))
    api.delete("pods", "default", "web", grace_seconds=0)
    after = run(api, server("web"))
    assert before["status"]["podIP"] != after["status"]["podIP"]


def test_pods_survive_an_api_server_restart(backend: NetnsBackend, api: Api) -> None:
    before = run(api, server("web"))
    run(api, server("gone"))
    backend.control_plane.stop_api_server()
    backend.control_plane.start_api_server(Release())
    assert ask(backend, before["status"]["podIP"]) == "web"
    run(api, server("new"))
    api.delete("pods", "default", "gone")
    eventually(lambda: is_deleted(api, "gone"), describe="the pod to be deleted")


@pytest.mark.slow
def test_pods_of_a_real_api_server_run_resolve_names_and_end() -> None:
    settings = resolve({"control-plane": "binaries:1.37"}, environment={})
    try:
        implementation = of_settings(settings)
    except UnavailableError as error:
        pytest.skip(str(error))
    with NetnsBackend(grid("one", {"a": 1}), implementation=implementation, release=settings.release) as backend:
        dns = KubeDns(backend.kubeconfig(), backend.api, backend.network)
        with dns.served(), Kubelet(backend.kubeconfig(), backend.network, dns=dns.address) as kubelet:
            assert ask(backend, run(backend.api, server("web"))["status"]["podIP"], of="a1") == "web"
            backend.settle()
            text = "getent ahostsv4 kubernetes.default | grep -m 1 STREAM"
            backend.api.create("pods", "default", script(text, restartPolicy="Never"))
            becomes(backend.api, "job", lambda seen: seen["status"].get("phase") == "Succeeded")
            assert logged(kubelet).startswith("10.96.0.1 ")
            for name in ("web", "job"):
                backend.api.delete("pods", "default", name)
                eventually(partial(is_deleted, backend.api, name), describe="the pod to be deleted")
