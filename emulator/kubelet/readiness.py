"""Send the readiness probes of a container from its node until the container ends, as a kubelet does."""

import asyncio
import socket
from collections.abc import Awaitable, Callable, Sequence
from concurrent.futures import Future

from harness.errors import HarnessError
from harness.event_loop import EventLoop
from harness.model.manifests import Object
from harness.netns.namespace import Namespace


class Readiness:
    """The readiness of a container. Without a probe, a running container is ready.

    `changed` is called on the loop's thread when the readiness changes, and when the first probe has ended.
    """

    def __init__(
        self,
        container: Object,
        node: Namespace,
        address: str,
        *,
        loop: EventLoop,
        changed: Callable[[], None],
        run: Callable[[Sequence[str], float], Awaitable[int]],
    ) -> None:
        self._probe: Object | None = container.get("readinessProbe")
        self._ports = {
            each["name"]: int(each["containerPort"]) for each in container.get("ports") or () if each.get("name")
        }
        self._node = node
        self._address = address
        self._changed = changed
        self._run = run
        self._stopped = False
        self._good = self._probe is None
        self.known = self._probe is None or self._number("initialDelaySeconds", 0) > 0
        """True if the readiness can be reported: without a probe, in the initial delay, or after the first probe."""
        self._future = Future[None]() if self._probe is None else loop.spawn(self._probe_forever(self._probe))

    @property
    def ready(self) -> bool:
        return self._good and not self._stopped

    def stop(self) -> None:
        self._stopped = self.known = True
        self._future.cancel()

    def _number(self, name: str, default: int) -> int:
        return int((self._probe or {}).get(name) or default)

    async def _probe_forever(self, probe: Object) -> None:
        in_a_row = 0
        await asyncio.sleep(self._number("initialDelaySeconds", 0))
        while True:
            good = await self._succeeds(probe)
            in_a_row = 0 if good == self._good else in_a_row + 1
            needed = self._number("successThreshold", 1) if good else self._number("failureThreshold", 3)
            if in_a_row >= needed or not self.known:
                if in_a_row >= needed:
                    self._good, in_a_row = good, 0
                self.known = True
                self._changed()
            await asyncio.sleep(self._number("periodSeconds", 10))

    async def _succeeds(self, probe: Object) -> bool:
        """Return whether an httpGet, tcpSocket or exec probe succeeds. A gRPC probe always fails."""
        seconds = float(self._number("timeoutSeconds", 1))
        if (program := probe.get("exec")) is not None:
            return await self._run(program["command"], seconds) == 0
        http, tcp = probe.get("httpGet"), probe.get("tcpSocket")
        action = http or tcp
        if action is None:
            return False
        path = "" if http is None else http.get("path") or "/"
        port = self._ports.get(action["port"], 0) if isinstance(action["port"], str) else int(action["port"])
        try:
            async with asyncio.timeout(seconds):
                return await self._answers(action.get("host") or self._address, port, path)
        except (OSError, HarnessError):  # includes a timeout, no free descriptor, and a deleted netns
            return False

    async def _answers(self, host: str, port: int, path: str) -> bool:
        loop = asyncio.get_running_loop()
        with self._node.socket(socket.AF_INET6 if ":" in host else socket.AF_INET, socket.SOCK_STREAM) as sock:
            sock.setblocking(False)
            await loop.sock_connect(sock, (host, port))
            if not path:
                return True
            place = f"[{host}]:{port}" if ":" in host else f"{host}:{port}"
            await loop.sock_sendall(sock, f"GET {path} HTTP/1.0\r\nHost: {place}\r\n\r\n".encode())
            head = b""
            while b"\n" not in head and (data := await loop.sock_recv(sock, 4096)):
                head += data
            code = head.split(b" ", 2)[1][:3] if head.count(b" ") else b""
            return code.isdigit() and 200 <= int(code) < 400
