"""A service proxy of the smallest kind, a program by itself: it asks the API server again and again, and calls `nft`.

It knows IPv4 and cluster IPs. With `ignores-hints` it has no hints, with `ignores-changed-hints` it compares endpoints
without them, as kpng does, with `keeps-removed` it goes on to use endpoints that are gone, and with `dies` it ends when
the first slice comes.
"""

from __future__ import annotations

import json
import ssl
import subprocess
import sys
import time
import urllib.request
from typing import Any

EVERY = 0.1
KUBECONFIG, NODE, WAY = sys.argv[1], sys.argv[2], sys.argv[3:]
kept: dict[str, list[Any]] = {}


def listed(path: str) -> Any:
    with open(KUBECONFIG) as file:  # noqa: PTH123
        known = json.load(file)
    headers = {"Authorization": "Bearer " + known["users"][0]["user"]["token"]}
    request = urllib.request.Request(known["clusters"][0]["cluster"]["server"] + path, headers=headers)
    context = ssl._create_unverified_context()
    with urllib.request.urlopen(request, context=context, timeout=5) as answer:
        return json.load(answer)


def remembered(name: str, endpoints: list[Any]) -> list[Any]:
    """The endpoints as this proxy has them, after a new version of their slice."""
    before = kept.get(name, [])
    if "ignores-changed-hints" in WAY and [e["addresses"] for e in before] == [e["addresses"] for e in endpoints]:
        return before
    if "keeps-removed" in WAY and len(endpoints) < len(before):
        return before
    kept[name] = endpoints
    return endpoints


def chosen(endpoints: list[Any], zone: str) -> list[str]:
    hinted = [[z["name"] for z in (each.get("hints") or {}).get("forZones") or []] for each in endpoints]
    if "ignores-hints" not in WAY and all(hinted) and any(zone in each for each in hinted):
        endpoints = [each for each, zones in zip(endpoints, hinted, strict=True) if zone in zones]
    return [each["addresses"][0] for each in endpoints]


def rules() -> str:
    zone = listed(f"/api/v1/nodes/{NODE}")["metadata"]["labels"]["topology.kubernetes.io/zone"]
    services = {each["metadata"]["name"]: each["spec"] for each in listed("/api/v1/services")["items"]}
    lines = []
    for each in listed("/apis/discovery.k8s.io/v1/endpointslices")["items"]:
        spec = services.get(each["metadata"]["labels"].get("kubernetes.io/service-name", ""))
        ready = remembered(each["metadata"]["name"], each["endpoints"] or [])
        if spec is None or each["addressType"] != "IPv4" or not ready:
            continue
        near = chosen(ready, zone)
        targets = ", ".join(f"{number} : {address}" for number, address in enumerate(near))
        port, target = spec["ports"][0]["port"], each["ports"][0]["port"]
        lines.append(
            f"ip daddr {spec['clusterIP']} tcp dport {port} "
            f"dnat to numgen random mod {len(near)} map {{ {targets} }} : {target}"
        )
    body = "\n".join(["type nat hook prerouting priority dstnat;", *lines])
    return f"table ip tiny\ndelete table ip tiny\ntable ip tiny {{\nchain services {{\n{body}\n}}\n}}\n"


before = ""
while True:
    wanted = rules()
    if wanted != before:
        subprocess.run(["nft", "-f", "-"], input=wanted, text=True, check=True)
        before = wanted
    if not kept:
        sys.stdout.write("serving\n")
        sys.stdout.flush()
    if "dies" in WAY and kept:
        sys.exit("error: out of luck")
    time.sleep(EVERY)
