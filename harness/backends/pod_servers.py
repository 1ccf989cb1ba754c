"""The echo servers of a pod, wherever its netns is."""

from __future__ import annotations

from collections.abc import Sequence

from harness.backends.backend import WantedPod
from harness.model.manifests import TARGET_PORT
from harness.netns.namespace import Namespace
from harness.probes.loop import Loop, Server, ServerPort

_ALWAYS = (("TCP", TARGET_PORT), ("UDP", TARGET_PORT))


def serve(loop: Loop, namespace: str, wanted: WantedPod, place: Namespace, *, families: Sequence[str]) -> list[Server]:
    """Serve TCP and UDP on the target port of a pod, and on its container ports. `place` is its netns.

    Raises `InconclusiveError` if a port is taken.
    """
    listening: dict[str, list[ServerPort]] = {}
    for protocol, port in sorted({*_ALWAYS, *((protocol, port) for _, port, protocol in wanted.container_ports)}):
        name = f"{namespace}/{wanted.name}"
        identity = f"{name}.{port}" if wanted.tells_port else name
        listening.setdefault(identity, []).extend(ServerPort(protocol, family, port) for family in families)
    return [loop.serve(place, identity, ports) for identity, ports in listening.items()]
