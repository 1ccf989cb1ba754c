"""Create pod interfaces with a recipe's commands, as a CNI plugin does, for data planes that attach to interfaces."""

import contextlib
import errno
import socket
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path

from harness.errors import HarnessError, InconclusiveError
from harness.eventually import eventually
from harness.netns.addresses import NUMBERS
from harness.netns.fabric import NetworkPeer, PodAttachment
from harness.netns.namespace import Namespace
from harness.recipes.values import Command, Seconds

OF_POD: Mapping[str, str] = {
    "pod": "the name of the pod that is attached or detached, empty for a client that is not a pod in the API",
    "pod_namespace": "its namespace, or empty",
    "pod_uid": "its UID, or another unique string",
    "pod_netns": "the path of the pod's netns",
    "pod_ipv4": "the IPv4 address to assign, empty in a cluster without IPv4",
    "pod_ipv6": "the IPv6 address to assign, empty in a cluster without IPv6",
    "pod_mac": "a unique MAC address for the pod",
    "interface": "the name of the pod's interface",
    "host_interface": "a unique name for the node's end of the link",
}
"""Placeholders that only the commands of `pods` accept."""

INTERFACE = "eth0"
SECONDS = 10.0  # the default of `seconds`
_ANSWER_SECONDS = 5.0  # seconds until a pod must answer its node
_TRY_SECONDS = 0.2
_CLOSED_PORT = 9

Run = Callable[[str, str, tuple[str, ...], Mapping[str, str], float], None]
"""Runs a command on a node, given its purpose, additional values and the time limit. Raises `InconclusiveError`."""

Show = Callable[[str, Namespace, str], Path]
"""Given a node, a netns and a name, returns a path through which commands on the node can enter the netns."""


@dataclass(frozen=True, slots=True)
class PodCommands:
    """A recipe's commands for pods. Without `detach`, the interface is deleted together with the pod's netns."""

    attach: Command
    detach: Command = ()
    seconds: Seconds = SECONDS


class PodInterfaces:
    """Attaches and detaches pods with commands. A pod counts as attached when it replies to its node."""

    def __init__(self, commands: PodCommands, run: Run, namespace_of: Callable[[str], Namespace], show: Show) -> None:
        self._commands, self._run_there, self._namespace_of, self._show = commands, run, namespace_of, show
        self._attached: dict[NetworkPeer, PodAttachment] = {}

    def attach(self, port: PodAttachment) -> None:
        """Attach a pod. On failure, detach it. Raises `InconclusiveError` with the first error of the command."""
        self._attached[port.pod] = port
        try:
            self._run("attach", self._commands.attach, port)
            self._await_answer(port)
        except BaseException:  # even at a time limit, or the implementation would keep an address that other pods get
            with contextlib.suppress(InconclusiveError):
                self.detach(port.pod)
            raise

    def detach(self, pod: NetworkPeer) -> None:
        """Detach a pod if it is attached. Raises `InconclusiveError` with the first error of the command."""
        port = self._attached.pop(pod, None)
        if port is None:
            return
        if self._commands.detach:
            self._run("detach", self._commands.detach, port)
        self._path(port).unlink()  # otherwise the sandbox keeps the netns

    def close(self) -> None:
        for pod in list(self._attached):
            with contextlib.suppress(HarnessError):
                self.detach(pod)

    def _run(self, verb: str, command: tuple[str, ...], port: PodAttachment) -> None:
        values = {**_values(port), "pod_netns": str(self._path(port))}
        self._run_there(port.pod.node, f"{verb} {_named(port)}", command, values, self._commands.seconds)

    def _path(self, port: PodAttachment) -> Path:
        return self._show(port.pod.node, port.pod.namespace, f"netns-{port.of.uid}")

    def _await_answer(self, port: PodAttachment) -> None:
        node = self._namespace_of(port.pod.node)
        for address in port.pod.addresses.values():
            eventually(
                lambda address=address: _answers(node, address),  # type: ignore[misc]
                within=_ANSWER_SECONDS,
                describe=f"{_named(port)} to reply to its node at {address}, after its attachment",
                error=InconclusiveError,
            )


def _named(port: PodAttachment) -> str:
    return f"pod {port.of.namespace}/{port.of.name}" if port.of.name else f"client pod {port.pod.name}"


def _values(port: PodAttachment) -> dict[str, str]:
    pod = port.pod
    return {
        "pod": port.of.name,
        "pod_namespace": port.of.namespace,
        "pod_uid": port.of.uid,
        "pod_ipv4": pod.addresses.get("IPv4", ""),
        "pod_ipv6": pod.addresses.get("IPv6", ""),
        "pod_mac": port.mac,
        "interface": INTERFACE,
        "host_interface": port.link,
    }


def _answers(node: Namespace, address: str) -> bool:
    """Return whether a host is reachable, by connecting to a closed port: only a reachable host refuses in time."""
    with node.socket(NUMBERS["IPv6" if ":" in address else "IPv4"], socket.SOCK_STREAM) as asking:
        asking.settimeout(_TRY_SECONDS)
        return asking.connect_ex((address, _CLOSED_PORT)) == errno.ECONNREFUSED
