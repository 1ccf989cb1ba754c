"""The manifests of `kind-configs/`, which can be used without this suite.

    python -m tools.kind_configs kind-configs     writes them again

A test compares the files with this module.
"""

import sys
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import yaml

from harness.backends.kind.config import CONTROL_PLANE, WORKER, KindConfig, manifest
from harness.model.topology import ONE_ZONE, THREE_ZONES


@dataclass(frozen=True, slots=True)
class Named:
    """A manifest in a file, and the comment at the top of the file."""

    says: str
    wanted: KindConfig


_BOTH = ("IPv4", "IPv6")
_V1_30 = "kindest/node:v1.30.13@sha256:397209b3d947d154f6641f2d0ce8d473732bd91c87d9575ade99049aa33cd648"
_V1_33 = "kindest/node:v1.33.7@sha256:d26ef333bdb2cbe9862a0f7c3803ecc7b4303d8cea8e814b481b09949d353040"


def _everywhere(image: str) -> dict[str, str]:
    return {CONTROL_PLANE: image, WORKER: image}


NAMED: Mapping[str, Named] = {
    "three-zones": Named("Three zones, kube-proxy in mode iptables.", KindConfig(THREE_ZONES)),
    "three-zones-nftables": Named(
        "Three zones, kube-proxy in mode nftables.", KindConfig(THREE_ZONES, mode="nftables")
    ),
    "three-zones-ipvs": Named(
        "Three zones, kube-proxy in mode ipvs (the host's kernel needs the module ip_vs).",
        KindConfig(THREE_ZONES, mode="ipvs"),
    ),
    "three-zones-dual-stack": Named("Three zones, IPv4 and IPv6.", KindConfig(THREE_ZONES, _BOTH)),
    "three-zones-dual-stack-nftables": Named(
        "Three zones, IPv4 and IPv6, kube-proxy in mode nftables.", KindConfig(THREE_ZONES, _BOTH, "nftables")
    ),
    "one-zone": Named("One zone with two nodes: topology must change nothing.", KindConfig(ONE_ZONE)),
    "three-zones-1.30-alpha": Named(
        "Kubernetes 1.30, where PreferClose is alpha, with its feature gate on.",
        KindConfig(THREE_ZONES, gates={"ServiceTrafficDistribution": True}, images=_everywhere(_V1_30)),
    ),
    "three-zones-1.33-alpha": Named(
        "Kubernetes 1.33, where PreferSameZone and PreferSameNode are alpha, with their feature gate on.",
        KindConfig(THREE_ZONES, gates={"PreferSameTrafficDistribution": True}, images=_everywhere(_V1_33)),
    ),
}


def text_of(name: str) -> str:
    """Return the text of the file `kind-configs/NAME.yaml`; the cluster's name is NAME with "-" for "."."""
    named = NAMED[name]
    nodes = ", ".join(f"{node.name} in zone {node.zone}" for node in named.wanted.topology.nodes)
    head = f"# {named.says}\n# Workers in this order: {nodes}.\n"
    head += f"#   kind create cluster --config kind-configs/{name}.yaml\n"
    head += "# Written by `python -m tools.kind_configs` from a named topology; make changes there.\n"
    body = yaml.safe_dump(manifest(named.wanted, name=name.replace(".", "-")), sort_keys=False, width=120)
    return head + body


def write(folder: Path) -> None:
    """Write all manifests to a folder."""
    for name in NAMED:
        (folder / f"{name}.yaml").write_text(text_of(name), encoding="utf-8")


if __name__ == "__main__":
    write(Path(sys.argv[1]))
