"""A real API server and a real controller, with helpers for tests."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable
from contextlib import suppress
from typing import Any, Self

from harness.eventually import eventually
from reference.apiserver import ApiServer
from reference.client import ApiError, Event, Object
from reference.endpointslice import EndpointSliceController
from tests.reference.api_server_calls import listed, patched
from tests.reference.endpointslice.objects import endpoints, make_node, make_pod, make_service

NODES = ("a1", "a2", "b1")


class RunningController:
    """An API server with nodes a1, a2 and b1, and a controller that `start` or the context manager starts."""

    def __init__(self, **options: Any) -> None:
        self.api = ApiServer()
        self.interrupted = InterruptedServer(self.api)
        self.controller = EndpointSliceController(self.interrupted, **options)
        for name in NODES:
            self.api.create("nodes", "", make_node(name))

    def __enter__(self) -> Self:
        self.controller.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.controller.stop()

    def settle(self) -> None:
        """Wait until the controller has processed all writes."""
        eventually(self.controller.synced, describe="the controller to be synced", every=0.0002)

    def create_service(self, name: str = "web", **spec: Any) -> Object:
        service = make_service(name, **spec)
        if "clusterIP" not in spec:
            del service["spec"]["clusterIP"]
        return self.api.create("services", "default", service)

    def change_service(self, name: str = "web", **spec: Any) -> None:
        patched(self.api, "services", "default", name, {"spec": spec})

    def run_pod(self, name: str = "p1", node: str = "a1", **fields: Any) -> Object:
        pod = make_pod(name, node, **fields)
        created = self.api.create("pods", "default", pod)
        return self.api.update_status("pods", "default", {**created, "status": pod["status"]})

    def set_ready(self, name: str, *, ready: bool) -> None:
        pod = self.api.get("pods", "default", name)
        conditions = [{"type": "Ready", "status": "True" if ready else "False"}]
        self.api.update_status("pods", "default", {**pod, "status": {**pod["status"], "conditions": conditions}})

    def label_node(self, name: str, zone: str) -> None:
        patched(self.api, "nodes", "", name, {"metadata": {"labels": {"topology.kubernetes.io/zone": zone}}})

    def slices(self, service: str = "web") -> list[Object]:
        self.settle()
        return listed(self.api, "endpointslices", "default", labels=f"kubernetes.io/service-name={service}")

    def pods_in_slices(self, service: str = "web") -> list[str]:
        return sorted(endpoint["targetRef"]["name"] for endpoint in endpoints(self.slices(service)))

    def the_endpoint(self, service: str = "web") -> Object:
        (endpoint,) = endpoints(self.slices(service))
        return endpoint

    def failures(self) -> list[str]:
        return [each["message"] for each in listed(self.api, "events", "default", fields="type=Warning")]


class InterruptedServer:
    """An API server that runs an action immediately before selected writes by the controller."""

    def __init__(self, api: ApiServer) -> None:
        self._api = api
        self.before: dict[str, Callable[[Object], None]] = {}
        self.writes: list[str] = []
        self.get, self.update_status = api.get, api.update_status

    def create(self, resource: str, namespace: str, obj: Object) -> Object:
        self._note("create", resource, obj)
        return self._api.create(resource, namespace, obj)

    def update(self, resource: str, namespace: str, obj: Object) -> Object:
        self._note("update", resource, obj)
        return self._api.update(resource, namespace, obj)

    def delete(self, resource: str, namespace: str, name: str) -> None:
        self._note("delete", resource, {"metadata": {"namespace": namespace, "name": name}})
        self._api.delete(resource, namespace, name)

    def subscribe(self, resources: Collection[str], sink: Callable[[Event], None]) -> Any:
        return self._api.subscribe(resources, sink)

    def _note(self, verb: str, resource: str, obj: Object) -> None:
        if resource == "endpointslices":
            self.writes.append(verb)
            self.before.get(verb, lambda _: None)(obj)


def failing(reasons: Iterable[str], code: int = 500) -> Callable[[Object], None]:
    """Return an action that fails once with each of these reasons and then succeeds."""
    left = iter(reasons)

    def refuse(_: Object) -> None:
        with suppress(StopIteration):
            reason = next(left)
            raise ApiError({"code": code, "reason": reason, "message": f"refused: {reason}"})

    return refuse
