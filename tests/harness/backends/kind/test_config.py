"""Tests the generated cluster configuration of kind, and the files in `kind-configs/`."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest
import yaml

from harness.backends.kind.config import (
    CONTROL_PLANE,
    WORKER,
    KindConfig,
    manifest,
    node_names,
    parse_images,
    version_of_image,
)
from harness.binaries.versions import Version
from harness.errors import UsageError
from harness.model.topology import ONE_ZONE, THREE_ZONES
from tests.harness.backends.kind.conftest import Install

FILES = Path(__file__).parents[4] / "kind-configs"
BOTH = ("IPv4", "IPv6")
V1_30 = "kindest/node:v1.30.13@sha256:397209b3d947d154f6641f2d0ce8d473732bd91c87d9575ade99049aa33cd648"
V1_33 = "kindest/node:v1.33.7@sha256:d26ef333bdb2cbe9862a0f7c3803ecc7b4303d8cea8e814b481b09949d353040"


def alpha(image: str, gate: str) -> KindConfig:
    return KindConfig(THREE_ZONES, gates={gate: True}, images={CONTROL_PLANE: image, WORKER: image})


NAMED = {
    "three-zones": KindConfig(THREE_ZONES),
    "three-zones-nftables": KindConfig(THREE_ZONES, mode="nftables"),
    "three-zones-ipvs": KindConfig(THREE_ZONES, mode="ipvs"),
    "three-zones-dual-stack": KindConfig(THREE_ZONES, BOTH),
    "three-zones-dual-stack-nftables": KindConfig(THREE_ZONES, BOTH, "nftables"),
    "one-zone": KindConfig(ONE_ZONE),
    "three-zones-1.30-alpha": alpha(V1_30, "ServiceTrafficDistribution"),
    "three-zones-1.33-alpha": alpha(V1_33, "PreferSameTrafficDistribution"),
}
"""The configuration of each file, by its name without the suffix."""
UP_TO_THE_NETWORK = """case "$1" in
  -v) echo "Docker version 99";;
  info) echo '{"CgroupVersion": "2"}';;
  network) echo "the network is asked for" >&2; exit 1;;
esac"""


def test_cluster_may_have_neither_kube_proxy_nor_network() -> None:
    wanted = manifest(KindConfig(ONE_ZONE, mode="none", default_cni=False))
    assert wanted["networking"] == {"ipFamily": "ipv4", "kubeProxyMode": "none", "disableDefaultCNI": True}


@pytest.mark.parametrize("name", NAMED)
def test_file_equals_the_manifest_of_a_run(name: str) -> None:
    config = NAMED[name]
    text = (FILES / f"{name}.yaml").read_text(encoding="utf-8")
    assert yaml.safe_load(text) == manifest(config, name=name.replace(".", "-"))
    nodes = ", ".join(f"{node.name} in zone {node.zone}" for node in config.topology.nodes)
    assert f"# Workers in this order: {nodes}.\n" in text


def test_readme_names_every_config_file() -> None:
    assert {path.stem for path in FILES.glob("*.yaml")} == set(NAMED)
    readme = (FILES / "README.md").read_text(encoding="utf-8")
    assert [name for name in NAMED if f"`{name}.yaml`" not in readme] == []


@pytest.mark.parametrize("name", NAMED)
def test_kind_accepts_the_file(name: str, kind: Path, install: Install) -> None:
    install("docker", UP_TO_THE_NETWORK)  # claims to have every node image; kind has validated the file by then
    made = subprocess.run(
        [kind, "create", "cluster", "--config", FILES / f"{name}.yaml", "--kubeconfig", "/dev/null"],
        capture_output=True, text=True, check=False, timeout=30,
    )  # fmt: skip
    assert "the network is asked for" in made.stderr


def test_kind_refuses_an_unknown_field(kind: Path, install: Install, tmp_path: Path) -> None:
    install("docker", UP_TO_THE_NETWORK)
    (tmp_path / "wrong.yaml").write_text(
        yaml.safe_dump({**manifest(KindConfig(ONE_ZONE)), "zones": 3}), encoding="utf-8"
    )
    command = [kind, "create", "cluster", "--config", tmp_path / "wrong.yaml", "--kubeconfig", "/dev/null"]
    made = subprocess.run(command, capture_output=True, text=True, check=False, timeout=30)
    assert "zones not found" in made.stderr


def test_workers_have_their_zone_and_their_name_and_the_control_plane_has_neither() -> None:
    nodes = manifest(KindConfig(ONE_ZONE))["nodes"]
    assert nodes == [
        {"role": "control-plane"},
        {"role": "worker", "labels": {"trafficdist.dev/node": "a1", "topology.kubernetes.io/zone": "a"}},
        {"role": "worker", "labels": {"trafficdist.dev/node": "a2", "topology.kubernetes.io/zone": "a"}},
    ]


def test_nodes_have_the_names_that_kind_gives_by_order() -> None:
    names = node_names(THREE_ZONES, "td")
    assert names == {"a1": "td-worker", "a2": "td-worker2", "b1": "td-worker3", "b2": "td-worker4", "c1": "td-worker5"}


@pytest.mark.parametrize(("tag", "gates"), [("v1.30.13", {"NFTablesProxyMode": True}), ("v1.31.0", None)])
def test_mode_nftables_sets_its_gate_where_required(tag: str, gates: dict[str, bool] | None) -> None:
    images = parse_images(f"kindest/node:{tag}@sha256:00")
    assert manifest(KindConfig(ONE_ZONE, mode="nftables", images=images)).get("featureGates") == gates


def test_each_role_can_have_its_own_node_image() -> None:
    images = parse_images("kindest/node:v1.34.0,worker=kindest/node:v1.33.7")
    nodes = manifest(KindConfig(ONE_ZONE, images=images))["nodes"]
    assert [node["image"] for node in nodes] == ["kindest/node:v1.34.0"] + ["kindest/node:v1.33.7"] * 2


@pytest.mark.parametrize(
    ("image", "version"),
    [
        ("kindest/node:v1.30.13@sha256:3972", Version(1, 30, 13)),
        ("registry.example:5000/node:v1.34.0", Version(1, 34, 0)),
        ("registry.example:5000/node", None),
        ("kindest/node:latest", None),
    ],
)
def test_the_version_of_a_node_image_is_in_its_tag(image: str, version: Version | None) -> None:
    assert version_of_image(image) == version


@pytest.mark.parametrize(
    ("given", "says"),
    [
        ({"mode": "ebpf"}, "no kube-proxy mode 'ebpf'"),
        ({"families": ("IPv5",)}, "expected IPv4, IPv6 or both"),
        ({"images": {"master": "x"}}, "no node role master"),
    ],
)
def test_unsupported_cluster_is_refused(given: dict[str, object], says: str) -> None:
    with pytest.raises(UsageError, match=says):
        KindConfig(ONE_ZONE, **given)  # type: ignore[arg-type]


def test_custom_network_plugin_replaces_the_default_of_kind() -> None:
    assert manifest(KindConfig(ONE_ZONE, default_cni=False))["networking"]["disableDefaultCNI"] is True
    assert "disableDefaultCNI" not in manifest(KindConfig(ONE_ZONE))["networking"]
