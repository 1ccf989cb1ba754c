"""Readiness probes of a container: sent from its node, as by a kubelet, until the container ends."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from emulator.kubelet.agnhost.dialing import Report
from emulator.kubelet.agnhost.engine import Engine
from harness.netns.namespace import Namespace

Object = dict[str, Any]


Run = Callable[[Sequence[str], Callable[[int], None], float], None]
"""Runs a program, calls a function with its exit code on the engine's thread, and kills it after that many seconds."""


class Readiness:
    """The readiness of a container. Without a probe it is ready as long as it runs.

    `changed` is called on the engine's thread when it becomes ready or unready, and when the first probe has ended.
    `run` runs a program in the container: see `RunningContainer.run_beside`.
    """

    def __init__(
        self,
        container: Object,
        node: Namespace,
        address: str,
        *,
        engine: Engine,
        changed: Callable[[], None],
        run: Run,
    ) -> None:
        self._probe: Object | None = container.get("readinessProbe")
        self._ports = {
            each["name"]: int(each["containerPort"]) for each in container.get("ports") or () if each.get("name")
        }
        self._node = node
        self._address = address
        self._engine = engine
        self._changed = changed
        self._run = run
        self._in_a_row = 0
        self._over = False
        self.ready = self._probe is None
        self.known = self._probe is None or self._number("initialDelaySeconds", 0) > 0
        """True if the readiness can be reported: not during the first probe."""

    def begin(self) -> None:
        """Start probing."""
        if self._probe is not None:
            self._engine.after(self._number("initialDelaySeconds", 0), self._ask)

    def stop(self) -> None:
        """Stop probing: the container is not ready any more."""
        self._over, self.ready, self.known = True, False, True

    def _number(self, name: str, default: int) -> int:
        return int((self._probe or {}).get(name) or default)

    def _ask(self) -> None:
        if self._over or self._probe is None:
            return
        seconds = float(self._number("timeoutSeconds", 1))
        if (asked := self._probe.get("httpGet")) is not None:
            target = (asked.get("host") or self._address, self._port(asked["port"]))
            self._engine.get(self._node, target, asked.get("path") or "/", seconds=seconds, report=self._report)
        elif (asked := self._probe.get("tcpSocket")) is not None:
            target = (asked.get("host") or self._address, self._port(asked["port"]))
            self._engine.connect(self._node, target, seconds=seconds, report=self._report)
        elif (asked := self._probe.get("exec")) is not None:
            self._run(asked["command"], lambda code: self._heard(200 if code == 0 else 0, ""), seconds)
        else:
            self._heard(0, "an embedded cluster has httpGet, tcpSocket and exec probes only")

    @property
    def _report(self) -> Report:
        return self._heard

    def _port(self, port: int | str) -> int:
        return self._ports.get(port, 0) if isinstance(port, str) else int(port)

    def _heard(self, code: int, _text: str) -> None:
        if self._over:
            return
        good = 200 <= code < 400
        first, self.known = not self.known, True
        self._in_a_row = 0 if good == self.ready else self._in_a_row + 1
        needed = self._number("successThreshold", 1) if good else self._number("failureThreshold", 3)
        if self._in_a_row >= needed:
            self.ready, self._in_a_row = good, 0
            first = True
        if first:
            self._changed()
        self._engine.after(float(self._number("periodSeconds", 10)), self._ask)
