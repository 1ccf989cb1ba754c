"""Run the plugins of a CNI configuration for one pod, as a container runtime does (CNI specification 1.0.0).

This program uses only the standard library. It starts in the node's netns for each pod that is added or deleted. `pods:
{cni: FILE}` in a recipe is shorthand for two commands that run this program. The harness chooses pod addresses in
advance. They are passed to the plugins through CNI's conventional capabilities `ips`, `ipRanges` and `mac`, if the
configuration declares these capabilities.
"""

from __future__ import annotations

import ipaddress
import json
import os
import shutil
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any, NamedTuple

USUAL_PATH = "/opt/cni/bin:/usr/lib/cni"
"""The plugin folders that are searched if CNI_PATH is not set."""

_LENGTHS = {4: 24, 6: 64}  # of a node's pod CIDR, by IP version


class CniError(Exception):
    """An invalid configuration, a missing plugin, or an error from a plugin."""


class Pod(NamedTuple):
    """A pod. Its fields are named after the placeholders that provide their values."""

    pod: str
    pod_namespace: str
    pod_uid: str
    pod_netns: str
    pod_mac: str
    interface: str
    pod_ipv4: str
    pod_ipv6: str

    @property
    def addresses(self) -> list[ipaddress.IPv4Interface | ipaddress.IPv6Interface]:
        """Return the pod's addresses, each with the prefix length of the node's pod CIDR."""
        given = [ipaddress.ip_address(each) for each in (self.pod_ipv4, self.pod_ipv6) if each]
        return [ipaddress.ip_interface(f"{each}/{_LENGTHS[each.version]}") for each in given]

    @property
    def offered(self) -> dict[str, Any]:
        """Return the values of `runtimeConfig`, by capability."""
        return {
            "ips": [str(each) for each in self.addresses],
            "ipRanges": [[{"subnet": str(each.network)}] for each in self.addresses],
            "mac": self.pod_mac,
        }

    @property
    def arguments(self) -> str:
        """Return the value of CNI_ARGS, with the keys that Kubernetes' container runtimes use."""
        uid = self.pod_uid
        known = {"NAMESPACE": self.pod_namespace, "NAME": self.pod, "INFRA_CONTAINER_ID": uid, "UID": uid}
        return ";".join(["IgnoreUnknown=1", *(f"K8S_POD_{key}={value}" for key, value in known.items())])


def parse(text: str) -> dict[str, Any]:
    """Return a configuration with a list of plugins. A single plugin is converted to a list. Raises `CniError`."""
    try:
        found = json.loads(text)
    except ValueError as error:
        raise CniError(f"not JSON: {error}") from None
    if not isinstance(found, dict) or not found.get("name"):
        raise CniError("no name")
    plugins = found.get("plugins", [found])
    if not isinstance(plugins, list) or not all(isinstance(each, dict) and each.get("type") for each in plugins):
        raise CniError("a plugin has no type")
    return {**found, "plugins": plugins}


def run(verb: str, config: Mapping[str, Any], pod: Pod, kept: Path) -> None:
    """Add or delete a pod with all plugins of a configuration. The file `kept` stores the result until the deletion.

    Raises `CniError` with the name of the failed plugin, or if the pod has unexpected addresses.
    """
    result = json.loads(kept.read_text(encoding="utf-8")) if verb == "DEL" and kept.exists() else None
    for plugin in reversed(config["plugins"]) if verb == "DEL" else config["plugins"]:
        said = _call(verb, _of_plugin(config, plugin, pod, result), pod)
        result = said if verb == "ADD" else result
    if verb == "DEL":
        kept.unlink(missing_ok=True)
        return
    kept.write_text(json.dumps(result), encoding="utf-8")
    got = sorted(str(ipaddress.ip_interface(each["address"]).ip) for each in (result or {}).get("ips", []))
    wanted = sorted(str(each.ip) for each in pod.addresses)
    if got != wanted:
        raise CniError(f"the pod got {got}, not {wanted}: does the IPAM plugin have the capability ips?")


def _of_plugin(config: Mapping[str, Any], plugin: Mapping[str, Any], pod: Pod, result: Any) -> dict[str, Any]:
    capable = [name for name, able in (plugin.get("capabilities") or {}).items() if able]
    offered = {name: value for name, value in pod.offered.items() if name in capable}
    return {
        **{name: value for name, value in plugin.items() if name not in ("capabilities", "plugins")},
        **{name: config[name] for name in ("cniVersion", "name") if name in config},
        **({"runtimeConfig": offered} if offered else {}),
        **({"prevResult": result} if result else {}),
    }


def _call(verb: str, config: Mapping[str, Any], pod: Pod) -> Any:
    name, path = config["type"], os.environ.get("CNI_PATH", USUAL_PATH)
    program = shutil.which(name, path=path)
    if program is None:
        raise CniError(f"plugin {name} is not in {path}")
    told = {
        "CNI_COMMAND": verb, "CNI_CONTAINERID": pod.pod_uid, "CNI_NETNS": pod.pod_netns, "CNI_IFNAME": pod.interface,
        "CNI_ARGS": pod.arguments, "CNI_PATH": path,
    }  # fmt: skip
    ended = subprocess.run(  # noqa: S603  the plugin that the configuration names
        [program], input=json.dumps(config).encode(), stdout=subprocess.PIPE, env=os.environ | told, check=False
    )
    try:
        said = json.loads(ended.stdout or b"null")
    except ValueError:
        said = None
    if ended.returncode:
        why = said if isinstance(said, dict) else {"msg": f"it exited with {ended.returncode}"}
        raise CniError(f"plugin {name}: {why.get('msg', '')} {why.get('details', '')}".rstrip())
    return said


def main(verb: str, file: str, folder: str, *pod: str) -> int:
    of_pod = Pod(*pod)
    try:
        run(verb, parse(Path(file).read_text(encoding="utf-8")), of_pod, Path(folder) / f"cni-{of_pod.pod_uid}.json")
    except (CniError, OSError) as error:
        print(f"{file}: {error}", file=sys.stderr)  # noqa: T201  the log of the node's pods
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
