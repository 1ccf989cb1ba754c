"""Serve logs and exec to the API server over HTTPS, with a kubelet's error messages, because users see them."""

import asyncio
import socket
import ssl
from collections.abc import Callable, Iterable, Mapping
from typing import Any

from aiohttp import web

from emulator.kubelet.container_log import ContainerLog
from emulator.kubelet.running_container import RunningContainer
from emulator.kubelet.running_pod import RunningPod
from emulator.kubelet.server import exec as programs
from emulator.kubelet.server import logs
from harness.event_loop import EventLoop
from harness.netns.fabric import NetworkPeer
from harness.probes.server import bound
from reference.apiserver.listening_port import ListeningPort

PORT = 10250
_GRACE = 0.05  # seconds for requests to end when the kubelet ends


class KubeletServer:
    def __init__(self, pod: Callable[[str, str], RunningPod | None], loop: EventLoop) -> None:
        self._pod = pod
        self._loop = loop
        self._server: web.Server | None = None
        self._ports: list[ListeningPort] = []
        self._tasks: set[asyncio.Task[Any] | None] = set()  # tasks that handle a request

    def start(self, nodes: Iterable[NetworkPeer], tls: ssl.SSLContext) -> None:
        """Listen on all addresses of these nodes. Raises `OSError` if a port is in use."""
        listening = [
            bound(node.namespace, "TCP", family, PORT, address=address)
            for node in nodes
            for family, address in node.addresses.items()
        ]
        self._loop.run(self._listen(listening, tls))

    def close(self) -> None:
        """End all connections and the programs that they started. Idempotent."""
        if self._server is not None:
            self._loop.run(self._end(self._server))
            self._server = None

    async def _listen(self, listening: Iterable[socket.socket], tls: ssl.SSLContext) -> None:
        self._server = web.Server(self._handle, access_log=None, handler_cancellation=True)
        for each in listening:
            self._ports.append(port := ListeningPort(each))
            await port.listen(self._server, tls)

    async def _end(self, server: web.Server) -> None:
        for port in self._ports:
            await port.stop_listening()
        await server.shutdown(timeout=_GRACE)
        await asyncio.gather(*filter(None, self._tasks), return_exceptions=True)
        for port in self._ports:
            await port.hang_up()
            port.close()

    async def _handle(self, request: web.BaseRequest) -> web.StreamResponse:
        self._tasks.add(task := asyncio.current_task())
        try:
            match request.path.split("/")[1:]:
                case ["healthz"]:
                    return web.Response(text="ok")
                case ["containerLogs", namespace, pod, container] if request.method == "GET":
                    return await self._logs(request, namespace, pod, container)
                case ["exec", namespace, pod, container] if request.method in {"GET", "POST"}:
                    return await self._exec(request, namespace, pod, container)
        except ValueError as error:
            return web.Response(status=400, text=f"{error}\n")
        finally:
            self._tasks.discard(task)
        return web.Response(status=404, text="404 page not found\n")

    async def _logs(self, request: web.BaseRequest, namespace: str, pod: str, name: str) -> web.StreamResponse:
        options = logs.LogOptions.parse(request.query)
        if (running := self._pod(namespace, pod)) is None:
            return web.Response(status=404, text=f'pod "{pod}" does not exist')
        if (container := running.container(name)) is None:
            return web.Response(status=404, text=f'container "{name}" not found in pod "{pod}"')
        return await logs.serve(request, _log(container, pod, previous=options.previous), options)

    async def _exec(self, request: web.BaseRequest, namespace: str, pod: str, name: str) -> web.StreamResponse:
        options = programs.ExecOptions.parse(request)
        running = self._pod(namespace, pod)
        if running is None or running.host is None:
            return web.Response(status=404, text="pod does not exist")
        container = running.container(name)
        if container is None or not container.runs:
            return web.Response(status=500, text=f'container not found ("{name}")')
        return await programs.serve(request, container, options)


def _log(container: RunningContainer, pod: str, *, previous: bool) -> ContainerLog:
    if previous:
        if container.previous_log is None:
            raise ValueError(f'previous terminated container "{container.name}" in pod "{pod}" not found')
        return container.previous_log
    if container.log is None:
        raise ValueError(
            f'container "{container.name}" in pod "{pod}" is waiting to start: {_reason(container.state.state)}'
        )
    return container.log


def _reason(state: Mapping[str, Mapping[str, str]]) -> str:
    reason = state.get("waiting", {}).get("reason", "ContainerCreating")
    said = {"ErrImagePull": "image can't be pulled", "ImagePullBackOff": "trying and failing to pull image"}
    return said.get(reason, reason)
