"""The files of /etc that a kubelet writes for a pod: its resolver's configuration, its hosts and its name.

Pure. Source: the documentation of DNS for Services and Pods (dnsPolicy, dnsConfig).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

Object = dict[str, Any]

ZONE = "cluster.local"


def files_of(pod: Object, pod_ips: Sequence[str], hostname: str, *, dns: str) -> dict[str, str]:
    """Return texts by path. `dns` is the address of the cluster's DNS; "" if there is none."""
    names = "".join(f"{ip}\t{hostname}\n" for ip in pod_ips)
    for alias in pod["spec"].get("hostAliases") or ():
        names += f"{alias['ip']}\t{' '.join(alias.get('hostnames') or ())}\n"
    return {
        "/etc/hosts": f"# Kubernetes-managed hosts file.\n127.0.0.1\tlocalhost\n::1\tlocalhost ip6-localhost\n{names}",
        "/etc/hostname": f"{hostname}\n",
        "/etc/resolv.conf": _resolver(pod, dns),
    }


def _resolver(pod: Object, dns: str) -> str:
    spec, namespace = pod["spec"], pod["metadata"]["namespace"]
    policy, wanted = spec.get("dnsPolicy") or "ClusterFirst", spec.get("dnsConfig") or {}
    servers, search, options = [], [], []
    if dns and (policy == "ClusterFirstWithHostNet" or (policy == "ClusterFirst" and not spec.get("hostNetwork"))):
        servers, search, options = [dns], [f"{namespace}.svc.{ZONE}", f"svc.{ZONE}", ZONE], ["ndots:5"]
    servers += wanted.get("nameservers") or ()
    search += [each for each in wanted.get("searches") or () if each not in search]
    named = {each.partition(":")[0]: each for each in options}
    for each in wanted.get("options") or ():
        named[each["name"]] = f"{each['name']}:{each['value']}" if each.get("value") else each["name"]
    lines = [f"search {' '.join(search)}"] if search else []
    lines += [f"nameserver {each}" for each in servers]
    lines += [f"options {' '.join(named.values())}"] if named else []
    return "".join(f"{line}\n" for line in lines)
