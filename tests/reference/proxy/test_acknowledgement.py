"""The Lease in which a proxy reports the EndpointSlice revision that the kernel of its node uses."""

from __future__ import annotations

import itertools
import threading
from collections.abc import Collection, Iterator
from typing import Any

import pytest

from harness.eventually import eventually
from harness.netns.namespace import Namespace
from reference.apiserver import ApiServer
from reference.client import ApiError, Client, Event, Object
from reference.objects.acknowledgement_lease import lease_name, revision_of
from reference.proxy import ServiceProxy
from reference.proxy.acknowledgement import Acknowledgement


class CountingApiServer:
    """An API server that counts Lease updates, and rejects them while it is `away`."""

    def __init__(self) -> None:
        self.api = ApiServer()
        self.updates = 0
        self.away = threading.Event()

    def update(self, resource: str, namespace: str, obj: Object) -> Object:
        self.updates += 1
        if self.away.is_set():
            raise ConnectionRefusedError
        return self.api.update(resource, namespace, obj)

    def __getattr__(self, name: str) -> Any:
        return getattr(self.api, name)

    def acknowledged(self) -> int:
        """Return the revision in the Lease, or 0 if there is no Lease."""
        try:
            lease = self.api.get("leases", "kube-system", lease_name("a1"))
        except ApiError:
            return 0
        return revision_of(lease) or 0


@pytest.fixture
def counting() -> CountingApiServer:
    return CountingApiServer()


@pytest.fixture
def written(counting: CountingApiServer) -> Iterator[Acknowledgement]:
    client: Client = counting  # type: ignore[assignment]
    made = Acknowledgement("a1", client)
    made.start()
    yield made
    made.stop()


NUMBERS = itertools.count(1)


def slice_event(version: int, *, hinted: bool = True, kind: str = "MODIFIED", name: str = "web-1") -> Event:
    endpoint = {"addresses": ["10.244.1.2"]} | ({"hints": {"forZones": [{"name": "a"}]}} if hinted else {})
    metadata = {"namespace": "default", "name": name, "resourceVersion": str(version)}
    return Event(kind, "endpointslices", {"metadata": metadata, "endpoints": [endpoint]})  # type: ignore[arg-type]


def work(acknowledgement: Acknowledgement, *events: Event) -> None:
    for event in events:
        acknowledgement.worked_on(event)
    acknowledgement.in_kernel()


def acknowledged(counting: CountingApiServer, version: int) -> None:
    eventually(lambda: counting.acknowledged() == version, describe=f"acknowledgement of {version}")


def test_hints_in_the_kernel_are_acknowledged(counting: CountingApiServer, written: Acknowledgement) -> None:
    work(written, slice_event(17))

    acknowledged(counting, 17)
    spec = counting.api.get("leases", "kube-system", lease_name("a1"))["spec"]
    assert spec["holderIdentity"] == "a1"


def test_other_changes_are_acknowledged_with_the_next_hints(
    counting: CountingApiServer, written: Acknowledgement
) -> None:
    work(written, slice_event(17, hinted=False))
    work(
        written,
        Event("ADDED", "services", {"metadata": {"namespace": "default", "name": "x", "resourceVersion": "19"}}),
    )
    work(written, slice_event(18))

    acknowledged(counting, 19)


@pytest.mark.parametrize("last", [slice_event(18, hinted=False), slice_event(18, kind="DELETED")])
def test_removed_hints_are_acknowledged(counting: CountingApiServer, written: Acknowledgement, last: Event) -> None:
    work(written, slice_event(17))
    acknowledged(counting, 17)

    work(written, last)

    acknowledged(counting, 18)


def test_burst_of_changes_causes_few_lease_writes(counting: CountingApiServer, written: Acknowledgement) -> None:
    for version in range(1, 1001):
        work(written, slice_event(version))

    acknowledged(counting, 1000)
    assert counting.updates < 10


def test_lease_changed_by_another_client_is_read_again(counting: CountingApiServer, written: Acknowledgement) -> None:
    work(written, slice_event(17))
    acknowledged(counting, 17)
    lease = counting.api.get("leases", "kube-system", lease_name("a1"))
    counting.api.update("leases", "kube-system", {**lease, "spec": {"holderIdentity": "somebody"}})

    work(written, slice_event(18))

    acknowledged(counting, 18)


def test_failed_acknowledgement_is_written_later(
    counting: CountingApiServer, written: Acknowledgement, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("reference.proxy.acknowledgement.RETRY_SECONDS", 0.01)
    counting.away.set()
    work(written, slice_event(17))
    eventually(lambda: counting.updates > 1, describe="a second attempt")

    counting.away.clear()

    acknowledged(counting, 17)


class HangingApiServer(CountingApiServer):
    """An API server on which one write never returns."""

    def update(self, resource: str, namespace: str, obj: Object) -> Object:
        self.updates += 1
        self.away.wait(5)
        return self.api.update(resource, namespace, obj)

    def subscribe(self, resources: Collection[str], sink: Any) -> Any:
        return self.api.subscribe(resources, sink)


@pytest.fixture
def hinted() -> Object:
    body = slice_event(0, name="web-x").object
    labels = {"kubernetes.io/service-name": "web"}
    metadata = {"namespace": "default", "name": "web-x", "labels": labels}
    return {**body, "metadata": metadata, "addressType": "IPv4", "ports": [{"name": "", "port": 80, "protocol": "TCP"}]}


def test_hanging_write_does_not_delay_the_rules(node: Namespace, hinted: Object) -> None:
    hanging = HangingApiServer()
    with node.entered():
        proxy = ServiceProxy("a1", hanging, pod_cidrs=[], acknowledge=True)  # type: ignore[arg-type]
    proxy.start()
    hanging.api.create("endpointslices", "default", hinted)
    eventually(lambda: hanging.updates == 1, describe="the write")

    service = hanging.api.create(
        "services", "default", {"metadata": {"name": "web"}, "spec": {"ports": [{"port": 80}]}}
    )
    eventually(proxy.synced, within=1, describe="the proxy")

    assert service["spec"]["clusterIP"] in proxy.ruleset_text()
    hanging.away.set()
    proxy.stop()


def test_proxy_writes_no_lease_by_default(node: Namespace, hinted: Object) -> None:
    counting = CountingApiServer()
    counting.api.create("endpointslices", "default", hinted)
    with node.entered():
        silent, speaking = (ServiceProxy("a1", counting, pod_cidrs=[], acknowledge=each) for each in (False, True))  # type: ignore[arg-type]
    silent.start()
    eventually(silent.synced, describe="the proxy")
    silent.stop()
    assert counting.acknowledged() == 0

    speaking.start()

    revision = counting.api.get("endpointslices", "default", "web-x")["metadata"]["resourceVersion"]
    acknowledged(counting, int(revision))
    speaking.stop()
