"""The official Python client (`kubernetes`) works with the server."""

from __future__ import annotations

import importlib.util
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from kubernetes import client, config, dynamic, watch

from reference.apiserver import ApiServer
from tests.reference.api_server_calls import patched


@pytest.fixture
def connection(kubeconfig: Path) -> Iterator[client.ApiClient]:
    with config.new_client_from_config(str(kubeconfig)) as connection:
        yield connection
        connection.rest_client.pool_manager.clear()


@pytest.fixture
def core(connection: client.ApiClient) -> client.CoreV1Api:
    return client.CoreV1Api(connection)


def service(name: str = "web") -> client.V1Service:
    spec = client.V1ServiceSpec(ports=[client.V1ServicePort(port=80)], traffic_distribution="PreferSameZone")
    return client.V1Service(metadata=client.V1ObjectMeta(name=name), spec=spec)


def test_service_can_be_used_with_every_verb(core: client.CoreV1Api) -> None:
    created = core.create_namespaced_service("default", service())
    assert created.spec.cluster_ip.startswith("10.96.")
    created.spec.session_affinity = "ClientIP"
    assert core.replace_namespaced_service("web", "default", created).spec.session_affinity == "ClientIP"
    core.patch_namespaced_service("web", "default", {"metadata": {"labels": {"a": "b"}}})
    assert core.list_service_for_all_namespaces(label_selector="a=b").items[0].metadata.name == "web"
    core.delete_namespaced_service("web", "default")
    with pytest.raises(client.ApiException) as refused:
        core.read_namespaced_service("web", "default")
    assert refused.value.status == 404


def test_stale_replace_conflicts(core: client.CoreV1Api) -> None:
    stale = core.create_namespaced_service("default", service())
    core.patch_namespaced_service("web", "default", {"metadata": {"labels": {"a": "b"}}})
    stale.spec.session_affinity = "ClientIP"
    with pytest.raises(client.ApiException) as refused:
        core.replace_namespaced_service("web", "default", stale)
    assert (refused.value.status, refused.value.reason) == (409, "Conflict")


def test_node_namespace_and_pod_can_be_created(core: client.CoreV1Api) -> None:
    core.create_node(client.V1Node(metadata=client.V1ObjectMeta(name="a1", labels={"zone": "a"})))
    core.create_namespace(client.V1Namespace(metadata=client.V1ObjectMeta(name="shop")))
    spec = client.V1PodSpec(containers=[client.V1Container(name="c", image="i")], node_name="a1")
    core.create_namespaced_pod("shop", client.V1Pod(metadata=client.V1ObjectMeta(name="p"), spec=spec))
    assert core.list_pod_for_all_namespaces(field_selector="spec.nodeName=a1").items[0].metadata.name == "p"
    assert core.delete_namespaced_pod("p", "shop").metadata.deletion_timestamp
    core.delete_namespace("shop")
    assert [each.metadata.name for each in core.list_namespace().items] == ["default", "kube-system"]


def test_endpoint_slice_keeps_its_hints(connection: client.ApiClient) -> None:
    endpoint = client.V1Endpoint(
        addresses=["10.244.1.2"],
        zone="a",
        hints=client.V1EndpointHints(for_zones=[client.V1ForZone(name="a")]),
    )
    slice_ = client.V1EndpointSlice(
        address_type="IPv4",
        endpoints=[endpoint],
        metadata=client.V1ObjectMeta(generate_name="web-", labels={"kubernetes.io/service-name": "web"}),
    )
    discovery = client.DiscoveryV1Api(connection)
    discovery.create_namespaced_endpoint_slice("default", slice_)
    (found,) = discovery.list_endpoint_slice_for_all_namespaces(label_selector="kubernetes.io/service-name=web").items
    assert found.endpoints[0].hints.for_zones[0].name == "a"


def test_watch_sees_changes(core: client.CoreV1Api, api: ApiServer) -> None:
    core.create_namespaced_service("default", service())
    watcher = watch.Watch()
    seen = []
    for event in watcher.stream(core.list_namespaced_service, "default", timeout_seconds=20):
        seen.append((event["type"], event["object"].metadata.name))
        if len(seen) == 1:
            patched(api, "services", "default", "web", {"metadata": {"labels": {"a": "b"}}})
        elif len(seen) == 2:
            api.delete("services", "default", "web")
        else:
            watcher.stop()
    assert seen == [("ADDED", "web"), ("MODIFIED", "web"), ("DELETED", "web")]


def test_dynamic_client_discovers_and_applies(connection: client.ApiClient, tmp_path: Path) -> None:
    discovered = dynamic.DynamicClient(connection, cache_file=str(tmp_path / "discovery"))
    services = discovered.resources.get(api_version="v1", kind="Service")
    body: dict[str, Any] = {
        "apiVersion": "v1",
        "kind": "Service",
        "metadata": {"name": "web"},
        "spec": {"ports": [{"port": 80}]},
    }
    applied = discovered.server_side_apply(services, body=body, name="web", namespace="default", field_manager="me")
    assert applied.metadata.managedFields[0].manager == "me"
    assert services.get(namespace="default", name="web").spec.ports[0].port == 80
    slices = discovered.resources.get(api_version="discovery.k8s.io/v1", kind="EndpointSlice")
    assert slices.get(namespace="default").items == []


@pytest.mark.skipif(importlib.util.find_spec("kubernetes.informer") is None, reason="this client has no informer")
def test_informer_receives_changes(core: client.CoreV1Api, api: ApiServer) -> None:
    from kubernetes.informer import SharedInformer  # noqa: PLC0415 - newer clients only

    core.create_namespaced_service("default", service())
    deleted = threading.Event()
    informer = SharedInformer(core.list_namespaced_service, namespace="default")
    added = threading.Event()
    informer.add_event_handler("ADDED", lambda _: added.set())
    informer.add_event_handler("DELETED", lambda _: deleted.set())
    informer.start()
    try:
        assert added.wait(20)
        assert informer.cache.list_keys() == ["default/web"]
        api.delete("services", "default", "web")
        assert deleted.wait(20)
        assert informer.cache.list_keys() == []
    finally:
        informer.stop()


def test_pod_proxy_reaches_a_pod_by_name_and_port(core: client.CoreV1Api, api: ApiServer) -> None:
    """The client escapes `:` in a path as %3A."""
    api.create("pods", "default", {"metadata": {"name": "p"}, "spec": {"containers": [{"name": "c", "image": "i"}]}})
    with pytest.raises(client.ApiException, match="address not allowed"):
        core.connect_get_namespaced_pod_proxy_with_path("http:p:80", "default", "hostname")
