"""A service proxy for one node: it reads Services, EndpointSlices and its Node, and writes nftables rules.

It serves cluster IPs and node ports over IPv4 for TCP and UDP, with both traffic policies, zone hints, and terminating
endpoints. It needs Python 3.11, nft and conntrack. Usage:

    small_proxy.py NODE KUBECONFIG CLUSTER_CIDRS PORT

KUBECONFIG is a JSON file with a token. http://127.0.0.1:PORT/synced answers 200 when the rules match the API objects.
"""

from __future__ import annotations

import base64
import http.client
import json
import ssl
import subprocess
import sys
import threading
import time
import urllib.request
from collections.abc import Iterable, Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any, NamedTuple

ZONE = "topology.kubernetes.io/zone"
SERVICE_NAME = "kubernetes.io/service-name"
OTHER_PROXY = "service.kubernetes.io/service-proxy-name"
MARK = "0x4000"  # connections to masquerade, so that their answers return through this node


class Endpoint(NamedTuple):
    """The address and port of a pod, with its conditions and hints."""

    address: str
    port: int
    ready: bool
    fallback: bool  # terminating and still serving
    node: str
    zones: frozenset[str]  # zones in its hints


class Port(NamedTuple):
    """A port of a Service, with its endpoints for in-cluster clients and for external clients of the node port."""

    key: str  # names its chains
    cluster_ip: str
    protocol: str
    number: int
    node_port: int
    inside: list[Endpoint]
    outside: list[Endpoint]
    anywhere: list[Endpoint]  # if no policy is Local
    local: bool  # externalTrafficPolicy


# Decisions: pure functions


def read_endpoints(slices: Iterable[dict[str, Any]], name: str, protocol: str) -> list[Endpoint]:
    """Return the endpoints of one Service port from the slices of the Service."""
    found: dict[tuple[str, int], Endpoint] = {}
    for piece in slices:
        for port in piece.get("ports") or ():
            if (port.get("name") or "", port.get("protocol") or "TCP") != (name, protocol) or not port.get("port"):
                continue
            for each in piece.get("endpoints") or ():
                conditions = each.get("conditions") or {}
                ready = conditions.get("ready") is not False
                serving = conditions.get("serving") is not False
                zones = frozenset(zone["name"] for zone in (each.get("hints") or {}).get("forZones") or ())
                new = Endpoint(
                    each["addresses"][0],
                    port["port"],
                    ready,
                    serving and bool(conditions.get("terminating")),
                    each.get("nodeName") or "",
                    zones,
                )
                old = found.get(new[:2])
                if old is None or (new.ready, new.fallback) > (old.ready, old.fallback):
                    found[new[:2]] = new  # an address that moves between slices is in both for a while
    return sorted(found.values(), key=lambda each: each[:2])


def choose(endpoints: list[Endpoint], zone: str) -> list[Endpoint]:
    """Return the ready endpoints hinted for the zone, else all ready endpoints, else those that are terminating and
    still serve."""
    ready = [each for each in endpoints if each.ready]
    if not ready:
        return [each for each in endpoints if each.fallback]
    near = [each for each in ready if zone in each.zones]
    return near if near and all(each.zones for each in ready) else ready


def read_ports(
    services: Iterable[dict[str, Any]], slices: list[dict[str, Any]], node: dict[str, Any]
) -> Iterator[Port]:
    """Yield each port of each Service that this proxy serves."""
    zone, name = node["metadata"].get("labels", {}).get(ZONE, ""), node["metadata"]["name"]
    by_service: dict[tuple[str, str], list[dict[str, Any]]] = {}
    for piece in slices:
        if piece["addressType"] == "IPv4":
            owner = piece["metadata"].get("labels", {}).get(SERVICE_NAME, "")
            by_service.setdefault((piece["metadata"]["namespace"], owner), []).append(piece)
    for service in services:
        meta, spec = service["metadata"], service["spec"]
        addresses = [each for each in spec.get("clusterIPs") or [spec.get("clusterIP")] if each and "." in each]
        if spec.get("type") == "ExternalName" or not addresses or OTHER_PROXY in meta.get("labels", {}):
            continue
        mine = by_service.get((meta["namespace"], meta["name"]), [])
        for index, port in enumerate(spec.get("ports") or ()):
            protocol = port.get("protocol") or "TCP"
            if protocol not in ("TCP", "UDP"):
                continue
            endpoints = read_endpoints(mine, port.get("name") or "", protocol)
            anywhere, local = choose(endpoints, zone), choose([each for each in endpoints if each.node == name], "")
            local_outside = spec.get("externalTrafficPolicy") == "Local"
            yield Port(
                f"{meta['uid']}-{index}",
                addresses[0],
                protocol.lower(),
                port["port"],
                port.get("nodePort") or 0,
                local if spec.get("internalTrafficPolicy") == "Local" else anywhere,
                local if local_outside else anywhere,
                anywhere,
                local_outside,
            )


def write_rules(ports: list[Port], cluster_cidrs: str) -> str:
    """Return the whole table in nft syntax. It replaces the previous table in one transaction."""
    chains: dict[str, list[str]] = {}
    sets: dict[str, list[str]] = {name: [] for name in SETS}
    for port in ports:
        address = f"{port.cluster_ip} . {port.protocol} . {port.number}"
        if port.inside:
            sets["cluster_ips"].append(f"{address} : goto in-{port.key}")
            chains[f"in-{port.key}"] = [f"ip saddr != {{ {cluster_cidrs} }} jump come_back", _dnat(port, port.inside)]
        else:  # no endpoint by policy: drop; no endpoint at all: refuse
            sets["dropped" if port.anywhere else "refused"].append(address)
        if not port.node_port:
            continue
        if not port.anywhere:
            sets["refused_ports"].append(f"{port.protocol} . {port.node_port}")
            continue
        sets["node_ports"].append(f"{port.protocol} . {port.node_port} : goto out-{port.key}")
        chains[f"out-{port.key}"] = ["jump come_back", _dnat(port, port.anywhere)]
        if port.local:  # applies only to external clients; pods and the node itself use any endpoint
            chains[f"any-{port.key}"] = chains[f"out-{port.key}"]
            inside = f"ip saddr {{ {cluster_cidrs} }} goto any-{port.key}", f"fib saddr type local goto any-{port.key}"
            chains[f"out-{port.key}"] = [*inside, _dnat(port, port.outside) if port.outside else "drop"]
    addresses = _addresses(each for port in ports for each in (*port.inside, *port.outside, *port.anywhere))
    sets["itself"] = [f"{each} . {each}" for each in sorted(addresses)]
    declared = "".join(
        f"  {kind} {name} {{ type {of}; {'elements = { ' + ', '.join(sets[name]) + ' };' if sets[name] else ''} }}\n"
        for name, (kind, of) in SETS.items()
    )
    written = "".join(f"  chain {name} {{ {'; '.join(rules)}; }}\n" for name, rules in chains.items())
    return f"table ip small-proxy\ndelete table ip small-proxy\ntable ip small-proxy {{\n{declared}{written}{FIXED}}}\n"


PORT = "inet_proto . inet_service"
SETS = {
    "cluster_ips": ("map", f"ipv4_addr . {PORT} : verdict"),
    "node_ports": ("map", f"{PORT} : verdict"),
    "refused": ("set", f"ipv4_addr . {PORT}"),
    "dropped": ("set", f"ipv4_addr . {PORT}"),
    "refused_ports": ("set", PORT),
    "itself": ("set", "ipv4_addr . ipv4_addr"),
}
FIXED = f"""
  chain come_back {{ meta mark set meta mark | {MARK}; }}
  chain check {{
    ct state != new return
    ip daddr . meta l4proto . th dport @dropped drop
    ip daddr . meta l4proto . th dport @refused reject
    fib daddr type local meta l4proto . th dport @refused_ports reject
  }}
  chain lead {{
    ip daddr . meta l4proto . th dport vmap @cluster_ips
    fib daddr type local ip daddr != 127.0.0.0/8 meta l4proto . th dport vmap @node_ports
  }}
  chain check_forwarded {{ type filter hook prerouting priority dstnat - 10; jump check; }}
  chain check_own {{ type filter hook output priority -110; jump check; }}
  chain lead_forwarded {{ type nat hook prerouting priority dstnat; jump lead; }}
  chain lead_own {{ type nat hook output priority -100; jump lead; }}
  chain leave {{
    type nat hook postrouting priority srcnat
    meta mark & {MARK} != 0 masquerade
    ip saddr . ip daddr @itself masquerade
  }}
"""


def _dnat(port: Port, endpoints: list[Endpoint]) -> str:
    choices = ", ".join(f"{index} : {each.address} . {each.port}" for index, each in enumerate(endpoints))
    return f"meta l4proto {port.protocol} dnat ip to numgen random mod {len(endpoints)} map {{ {choices} }}"


def udp_flows(ports: list[Port]) -> dict[tuple[str, ...], set[str]]:
    """Return the endpoint addresses of UDP flows, by the conntrack options that select these flows."""
    found = {}
    for port in ports:
        if port.protocol == "udp":
            found["--orig-dst", port.cluster_ip, "--orig-port-dst", str(port.number)] = _addresses(port.inside)
            if port.node_port:
                found["--orig-port-dst", str(port.node_port)] = _addresses([*port.outside, *port.anywhere])
    return found


def _addresses(endpoints: Iterable[Endpoint]) -> set[str]:
    return {each.address for each in endpoints}


# Effects on the node


def run(*command: str, text: str = "") -> None:
    """Run a program. Exit if nft rejects rules. conntrack also fails if it finds no flow; this is ignored."""
    done = subprocess.run(command, input=text, capture_output=True, text=True, check=False)
    if done.returncode and command[0] == "nft":
        sys.exit(f"error: {done.stderr.strip()}")


def log(text: str) -> None:
    """Write a line to the log."""
    print(text, file=sys.stderr, flush=True)


def forget(before: dict[tuple[str, ...], set[str]], now: dict[tuple[str, ...], set[str]]) -> None:
    """Delete UDP flows to removed endpoints, and flows that began before the first endpoint existed."""
    for flow, old in before.items():
        new = now.get(flow, set())
        if bool(old) != bool(new):
            run("conntrack", "-D", "-p", "udp", *flow)
        elif not old <= new:
            for address in old - new:
                run("conntrack", "-D", "-p", "udp", *flow, "--reply-src", address)


class Proxy:
    """Watches the API, and writes rules."""

    def __init__(self, node: str, kubeconfig: str, cluster_cidrs: str) -> None:
        config = json.loads(Path(kubeconfig).read_text(encoding="utf-8"))
        cluster = config["clusters"][0]["cluster"]
        self.server, self.token = cluster["server"], config["users"][0]["user"]["token"]
        self.tls = ssl.create_default_context(cadata=base64.b64decode(cluster["certificate-authority-data"]).decode())
        self.cidrs = ", ".join(each for each in cluster_cidrs.split(",") if "." in each)
        self.news = threading.Condition()
        self.objects: dict[str, dict[str, dict[str, Any]]] = {}  # by path, then by uid
        self.paths = (
            "/api/v1/services",
            "/apis/discovery.k8s.io/v1/endpointslices",
            f"/api/v1/nodes?fieldSelector=metadata.name%3D{node}",
        )
        self.dirty, self.busy = True, True
        self.rules, self.used = "", dict[tuple[str, ...], set[str]]()

    def follow(self, path: str) -> None:
        """List and watch forever. List again when a connection ends."""
        while True:
            try:
                listed = json.load(self._ask(path))
                with self.news:
                    self.objects[path] = {each["metadata"]["uid"]: each for each in listed["items"]}
                    self._changed()
                since = f"watch=1&resourceVersion={listed['metadata']['resourceVersion']}"
                for line in self._ask(f"{path}{'&' if '?' in path else '?'}{since}"):
                    event = json.loads(line)
                    if event["type"] == "ERROR":
                        break
                    uid = event["object"]["metadata"]["uid"]
                    with self.news:
                        if event["type"] == "DELETED":
                            self.objects[path].pop(uid, None)
                        else:
                            self.objects[path][uid] = event["object"]
                        self._changed()
            except (OSError, ValueError, http.client.HTTPException) as error:
                log(f"watch of {path}: {error}")
            time.sleep(0.2)  # before the next list

    def _ask(self, path: str) -> Any:
        request = urllib.request.Request(self.server + path, headers={"Authorization": f"Bearer {self.token}"})
        return urllib.request.urlopen(request, context=self.tls)

    def _changed(self) -> None:
        self.dirty = True
        self.news.notify()

    def work(self) -> None:
        """Apply the Services again after each change, forever."""
        began = False
        while True:
            with self.news:
                self.busy = False
                self.news.wait_for(lambda: self.dirty and len(self.objects) == len(self.paths))
                self.dirty, self.busy = False, True
                services, slices, nodes = (list(self.objects[path].values()) for path in self.paths)
            self.apply(list(read_ports(services, slices, nodes[0])) if nodes else [])
            if not began:
                log("serving")
            began = True

    def apply(self, ports: list[Port]) -> None:
        """Write the rules of these ports if they have changed."""
        if (new := write_rules(ports, self.cidrs)) != self.rules:
            run("nft", "-f", "-", text=new)
            forget(self.used, udp_flows(ports))
            self.rules, self.used = new, udp_flows(ports)

    @property
    def synced(self) -> bool:
        """True while the rules match the API."""
        with self.news:
            return not self.dirty and not self.busy


def main(node: str, kubeconfig: str, cluster_cidrs: str, port: str, *, kind: type[Proxy] = Proxy) -> None:
    """Serve until the process ends, or until a program or a file is missing."""
    try:
        serve(kind(node, kubeconfig, cluster_cidrs), int(port))
    except FileNotFoundError as error:
        sys.exit(f"error: {error.filename} is missing")


def serve(proxy: Proxy, port: int) -> None:
    """Watch, write rules, and answer whether they match the API."""

    class Answer(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self.send_response(200 if proxy.synced else 503)
            self.end_headers()

        def log_message(self, *_: object) -> None:
            """Do not log requests."""

    for path in proxy.paths:
        threading.Thread(target=proxy.follow, args=[path], daemon=True).start()
    threading.Thread(target=ThreadingHTTPServer(("127.0.0.1", port), Answer).serve_forever, daemon=True).start()
    proxy.work()


if __name__ == "__main__":
    main(*sys.argv[1:])
