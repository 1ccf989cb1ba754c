"""Pods with an echo server, and the three kinds of clients."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal

ClientKind = Literal["pod", "node", "external"]


@dataclass(frozen=True, slots=True)
class Pod:
    name: str
    namespace: str
    node: str
    zone: str
    addresses: Mapping[str, str] = field(compare=False, hash=False)

    def __repr__(self) -> str:
        return self.name


@dataclass(frozen=True, slots=True)
class Client:
    """A client: in a pod on `node`, on the node itself, or external. Packets of an external client enter at `node`."""

    kind: ClientKind
    node: str

    def __str__(self) -> str:
        return {"pod": self.node, "node": f"node {self.node}", "external": f"outside via {self.node}"}[self.kind]


def pod_client(node: str) -> Client:
    """Return a client in a pod on this node. In expectations, the name of the node also means this client."""
    return Client("pod", node)


def node_client(node: str) -> Client:
    """Return a client on the node itself (a host-network pod, or a daemon of the node)."""
    return Client("node", node)


def external_client(via: str) -> Client:
    """Return an external client. Its packets enter the cluster at node `via`."""
    return Client("external", via)
