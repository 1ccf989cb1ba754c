"""Feature gates are read from flags in pods and from the ConfigMap of kube-proxy, in each form of a dump.

kube-proxy ignores its flag --feature-gates beside --config (kubernetes/cmd/kube-proxy/app/options.go).
"""

from __future__ import annotations

import itertools
import json
import random
from pathlib import Path

import pytest
from click.testing import CliRunner

from explain import dump
from explain import objects as files
from explain.components import configured_gates
from harness.api.client import Object
from harness.commands.main import main
from tests.explain.answer_rules import violations
from tests.explain.cluster_builders import ZONES, endpoint, node, objects, of_slice, proxy, service

GATE = "PreferSameTrafficDistribution"
FLAG = f"--feature-gates={GATE}=true"
CONFIG = "--config=/var/lib/kube-proxy/config.conf"
FILE = f"kind: KubeProxyConfiguration\nmode: nftables\nfeatureGates:\n  Other: true\n  {GATE}: true\n"


def config_map(text: str = FILE, *, name: str = "kube-proxy", key: str = "config.conf") -> Object:
    return {"kind": "ConfigMap", "metadata": {"name": name, "namespace": "kube-system"}, "data": {key: text}}


def component(name: str, version: str = "v1.33.4", *args: str) -> Object:
    """Return a pod of the control plane, as kubeadm writes it."""
    container = {"name": name, "image": f"registry.k8s.io/{name}:{version}", "command": [name, *args]}
    metadata = {"name": f"{name}-a1", "namespace": "kube-system", "labels": {"component": name}}
    return {"metadata": metadata, "spec": {"nodeName": "a1", "containers": [container]}}


def with_words(place: str, *, command: tuple[str, ...] = (), args: tuple[str, ...] = ()) -> Object:
    made = proxy(place, "v1.33.4")
    made["spec"]["containers"][0] |= {"command": [*command], "args": [*args]}
    return made


SHELL = f"exec kube-proxy --master=https://a {FLAG},Other=false --v=2 1>>/var/log/kube-proxy.log"
SETTINGS: dict[str, tuple[list[Object], list[Object], bool]] = {
    "nothing": ([proxy("a1", "v1.33.4")], [], False),
    "a flag in the command": ([with_words("a1", command=("kube-proxy", FLAG))], [], True),
    "a flag among the arguments": ([with_words("a1", args=(FLAG,))], [], True),
    "a flag and its value in two words": ([with_words("a1", args=("--feature-gates", f"{GATE}=true"))], [], True),
    "a flag in the words of a shell": ([with_words("a1", command=("/bin/sh", "-c", SHELL))], [], True),
    "AllAlpha": ([with_words("a1", args=("--feature-gates=AllAlpha=true",))], [], True),
    "AllAlpha without this one": ([with_words("a1", args=(f"--feature-gates=AllAlpha=true,{GATE}=false",))], [], False),
    "a flag that is off": ([with_words("a1", args=(f"--feature-gates={GATE}=false",))], [], False),
    "a flag that counts for nothing beside a file": ([with_words("a1", args=(CONFIG, FLAG))], [], False),
    "a file": ([with_words("a1", args=(CONFIG,))], [config_map()], True),
    "a file of a pod of which only the image is known": ([proxy("a1", "v1.33.4")], [config_map()], True),
    "a file of another name": ([with_words("a1", args=(CONFIG,))], [config_map(name="kube-proxy-config")], True),
    "a file that no proxy reads": ([with_words("a1", args=("--v=2",))], [config_map()], False),
    "a file that is not YAML": ([proxy("a1", "v1.33.4")], [config_map("kind: KubeProxyConfiguration\n- [")], False),
    "pods that disagree": ([with_words("a1", args=(FLAG,)), with_words("a2", args=("--v=2",))], [], False),
}


@pytest.mark.parametrize(("pods", "configs", "on"), SETTINGS.values(), ids=SETTINGS)
def test_gates_of_kube_proxy_follow_from_its_settings(pods: list[Object], configs: list[Object], on: bool) -> None:
    gates = configured_gates(pods, configs).get("kube-proxy 1.33", {})
    assert gates.get(GATE, gates.get("AllAlpha", False)) is on


def dumped(folder: Path, pods: list[Object], *configs: Object, asks: str = "PreferSameNode") -> Path:
    endpoints = [endpoint(each, nodes=[each]) for each in ("a1", "b1", "c1")]
    on = [node(name, zone, version="v1.33.4") for name, zone in ZONES.items()]
    seen = objects(service(asks=asks), of_slice(*endpoints), on=on)
    kinds = {"Service": seen.services, "EndpointSlice": seen.endpointslices, "Node": on, "Pod": pods}
    items = [{"kind": kind, **each} for kind, found in kinds.items() for each in found]
    place = folder / "all.json"
    place.write_text(json.dumps({"kind": "List", "items": [*items, *configs]}))
    return place


def explain(place: Path) -> tuple[int, dict[str, object]]:
    result = CliRunner().invoke(main, ["explain", "shop/web", "--from", str(place), "--format", "json"])
    return result.exit_code, json.loads(result.stdout)


MANAGER, SERVER = (component(f"kube-{each}", "v1.33.4", FLAG) for each in ("controller-manager", "apiserver"))
OLD_SERVER = component("kube-apiserver", "v1.33.4")
BARE_MANAGER = component("kube-controller-manager")
PROXIES = [proxy(each, "v1.33.4") for each in ZONES]


def test_request_is_met_if_the_gate_is_on_everywhere(tmp_path: Path) -> None:
    code, told = explain(dumped(tmp_path, [MANAGER, SERVER, *PROXIES], config_map()))
    on = {GATE: True}
    gates = {"kube-apiserver": on, "kube-controller-manager": on, "kube-proxy 1.33": on}
    assert (code, told["causes"], told["gates"]) == (0, [], gates)


def test_recording_keeps_the_gates_and_no_other_setting(tmp_path: Path) -> None:
    place = dumped(tmp_path, [MANAGER, SERVER, *PROXIES], config_map(f"{FILE}secret: hidden\n"))
    files.write(dump.read(str(place)), tmp_path / "recording")
    assert not [each for each in (tmp_path / "recording").iterdir() if "hidden" in each.read_text()]
    assert explain(tmp_path / "recording")[1]["gates"] == explain(place)[1]["gates"]


def test_controller_without_the_gate_is_told_apart_from_proxies_without_it(tmp_path: Path) -> None:
    _, of_proxies = explain(dumped(tmp_path, [MANAGER, SERVER, *PROXIES]))
    _, of_controller = explain(dumped(tmp_path, [BARE_MANAGER, OLD_SERVER, *PROXIES], config_map()))
    found = [[one["id"] for one in each["causes"]] for each in (of_proxies, of_controller)]  # type: ignore[attr-defined]
    assert found == [["proxy-too-old"], ["value-unknown-to-the-controller"]]
    (known,) = of_controller["causes"]  # type: ignore[misc]
    assert known["remedy"].startswith(f"use Kubernetes 1.34 or newer, or start kube-controller-manager with {FLAG}; or")


def random_dump(folder: Path, seed: int) -> Path:
    """Return a dump whose components have drawn releases and settings."""
    drawn = random.Random(seed)
    pods = [component(f"kube-{each}", drawn.choice(("v1.30.4", "v1.33.4", "v1.35.2")), *drawn.choice(((), (FLAG,))))
            for each in ("controller-manager", "apiserver")]  # fmt: skip
    words = [tuple(each) for each in itertools.product((CONFIG, ""), (FLAG, ""))]
    pods += [with_words(each, args=drawn.choice(words)) for each in ZONES]
    asks = drawn.choice(("PreferClose", "PreferSameZone", "PreferSameNode"))
    return dumped(folder, pods, *drawn.choice(((), (config_map(),))), asks=asks)


@pytest.mark.parametrize("seed", range(60))
def test_answers_keep_the_rules_whatever_the_settings_are(seed: int, tmp_path: Path) -> None:
    seen = dump.read(str(random_dump(tmp_path, seed)))
    for each in seen.pods:
        each["metadata"].setdefault("labels", {})
    assert [*violations(seen)] == []
    told = explain(tmp_path / "all.json")[1]
    causes: list[dict[str, str]] = told["causes"]  # type: ignore[assignment]
    on = {name for name, gates in seen.gates.items() if gates.get(GATE)}
    for each in causes:
        controller = next(one for one in seen.control_plane if "manager" in one["metadata"]["name"])
        if "v1.33" in str(controller) and "kube-controller-manager" in on:
            assert each["id"] != "value-unknown-to-the-controller"
        server = next(one for one in seen.control_plane if "apiserver" in one["metadata"]["name"])
        if each["id"] == "proxy-too-old" and "1.34 or newer" in each["remedy"]:
            assert ("control plane" in each["remedy"]) is ("v1.35" not in str(server))
            assert "kube-proxy 1.33" not in on
        assert each["id"] != "hints-nobody-asked-for"
