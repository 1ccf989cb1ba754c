"""The manifests of `kind-configs/`, which can be used without this suite.

    python -m tools.kind_configs kind-configs     writes them again

A test compares the files with this module.
"""

import sys
from collections.abc import Mapping
from pathlib import Path

import yaml

from harness.backends.kind.config import CONTROL_PLANE, WORKER, KindConfig, manifest
from harness.model.topology import ONE_ZONE, THREE_ZONES

_BOTH = ("IPv4", "IPv6")
_V1_30 = "kindest/node:v1.30.13@sha256:397209b3d947d154f6641f2d0ce8d473732bd91c87d9575ade99049aa33cd648"
_V1_33 = "kindest/node:v1.33.7@sha256:d26ef333bdb2cbe9862a0f7c3803ecc7b4303d8cea8e814b481b09949d353040"


def _alpha(image: str, gate: str) -> KindConfig:
    return KindConfig(THREE_ZONES, gates={gate: True}, images={CONTROL_PLANE: image, WORKER: image})


NAMED: Mapping[str, tuple[str, KindConfig]] = {
    "three-zones": ("Three zones, kube-proxy in iptables mode.", KindConfig(THREE_ZONES)),
    "three-zones-nftables": ("Three zones, kube-proxy in nftables mode.", KindConfig(THREE_ZONES, mode="nftables")),
    "three-zones-ipvs": (
        "Three zones, kube-proxy in IPVS mode (the host's kernel needs the module ip_vs).",
        KindConfig(THREE_ZONES, mode="ipvs"),
    ),
    "three-zones-dual-stack": ("Three zones, IPv4 and IPv6.", KindConfig(THREE_ZONES, _BOTH)),
    "three-zones-dual-stack-nftables": (
        "Three zones, IPv4 and IPv6, kube-proxy in nftables mode.",
        KindConfig(THREE_ZONES, _BOTH, "nftables"),
    ),
    "one-zone": ("One zone with two nodes: topology must change nothing.", KindConfig(ONE_ZONE)),
    "three-zones-1.30-alpha": (
        "Kubernetes 1.30, where PreferClose is alpha, with its feature gate enabled.",
        _alpha(_V1_30, "ServiceTrafficDistribution"),
    ),
    "three-zones-1.33-alpha": (
        "Kubernetes 1.33, where PreferSameZone and PreferSameNode are alpha, with their feature gate enabled.",
        _alpha(_V1_33, "PreferSameTrafficDistribution"),
    ),
}
"""A comment and the configuration of each file, by its name without the suffix."""


def text_of(name: str) -> str:
    """Return the content of `kind-configs/NAME.yaml`; the cluster's name is NAME with "-" for "."."""
    comment, config = NAMED[name]
    nodes = ", ".join(f"{node.name} in zone {node.zone}" for node in config.topology.nodes)
    head = f"# {comment}\n# Workers in this order: {nodes}.\n"
    head += f"#   kind create cluster --config kind-configs/{name}.yaml\n"
    head += "# Written by `python -m tools.kind_configs` from a named topology; make changes there.\n"
    return head + yaml.safe_dump(manifest(config, name=name.replace(".", "-")), sort_keys=False, width=120)


if __name__ == "__main__":
    for each in NAMED:
        Path(sys.argv[1], f"{each}.yaml").write_text(text_of(each), encoding="utf-8")
