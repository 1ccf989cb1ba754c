"""The resolv.conf of a pod follows the pod's dnsPolicy and dnsConfig."""

from __future__ import annotations

from typing import Any

import pytest

from emulator.kubelet.running_pod import files_of

CLUSTER = "search shop.svc.cluster.local svc.cluster.local cluster.local\nnameserver 10.96.0.10\noptions ndots:5\n"
CONFIG = {
    "nameservers": ["192.0.2.1"],
    "searches": ["example.org"],
    "options": [{"name": "ndots", "value": "2"}, {"name": "edns0"}],
}


def files(dns: str = "10.96.0.10", **spec: Any) -> dict[str, str]:
    pod = {"metadata": {"name": "web-1", "namespace": "shop"}, "spec": spec}
    return files_of(pod, ("10.244.1.2", "fd00::2"), "web-1", dns=dns)


@pytest.mark.parametrize(
    ("spec", "text"),
    [
        ({}, CLUSTER),
        ({"dnsPolicy": "ClusterFirst", "hostNetwork": True}, ""),
        ({"dnsPolicy": "ClusterFirstWithHostNet", "hostNetwork": True}, CLUSTER),
        ({"dnsPolicy": "Default"}, ""),
        (
            {"dnsPolicy": "None", "dnsConfig": CONFIG},
            "search example.org\nnameserver 192.0.2.1\noptions ndots:2 edns0\n",
        ),
        (
            {"dnsConfig": CONFIG},
            CLUSTER.replace("cluster.local\nn", "cluster.local example.org\nn").replace(
                "options ndots:5", "nameserver 192.0.2.1\noptions ndots:2 edns0"
            ),
        ),
    ],
)
def test_resolver(spec: dict[str, Any], text: str) -> None:
    assert files(**spec)["/etc/resolv.conf"] == text


def test_pod_has_no_resolver_without_cluster_dns() -> None:
    assert files("")["/etc/resolv.conf"] == ""


def test_pod_knows_its_own_name_and_its_aliases() -> None:
    hosts = files(hostAliases=[{"ip": "192.0.2.7", "hostnames": ["one", "two"]}])["/etc/hosts"]
    assert "10.244.1.2\tweb-1\nfd00::2\tweb-1\n192.0.2.7\tone two\n" in hosts
