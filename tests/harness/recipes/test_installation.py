"""Tests the settings in a recipe for kind clusters: manifests to install, objects to wait for, and errors in them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import yaml

from harness.errors import UsageError
from harness.recipes.installation import Workload, images_in, parse_installation
from harness.recipes.recipe import OF_PROXY, parse_recipe, read_recipe

ROOT = Path(__file__).parents[3]
POD = {"containers": [{"image": "mine:1"}], "initContainers": [{"image": "first:1"}]}
AGENT = {
    "apiVersion": "apps/v1",
    "kind": "DaemonSet",
    "metadata": {"name": "agent", "namespace": "kube-system"},
    "spec": {"template": {"spec": POD}},
}
CONFIG = {
    "apiVersion": "v1",
    "kind": "ConfigMap",
    "metadata": {"name": "agent"},
    "data": {"json": '{"api": "{server}", "mode": "{mode}", "empty": {}}'},
}


def test_workloads_are_waited_for_unless_the_recipe_names_others() -> None:
    parsed = parse_installation({"objects": [CONFIG, AGENT]}, Path())
    assert parsed.ready == parsed.daemon_sets == (Workload("DaemonSet", "kube-system", "agent"),)
    named = parse_installation({"objects": [AGENT], "ready": [{"deployment": "mine/operator"}]}, Path())
    assert (named.ready, named.daemon_sets) == ((Workload("Deployment", "mine", "operator"),), ())


def test_known_placeholders_are_filled_in_and_other_braces_stay() -> None:
    parsed = parse_installation({"objects": [CONFIG, AGENT], "install": ["mine", "{kubeconfig}", "{{x}}"]}, Path())
    values = {"server": "https://c:6443", "mode": "ebpf", "kubeconfig": "/k"}
    assert parsed.objects_with(values)[0]["data"]["json"] == '{"api": "https://c:6443", "mode": "ebpf", "empty": {}}'
    assert parsed.command_with(values) == ["mine", "/k", "{x}"]


def test_images_of_a_manifest_are_listed() -> None:
    bare = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "x"}, "spec": {"containers": [{"image": "mine:1"}]}}
    assert images_in((AGENT, CONFIG, bare)) == ["first:1", "mine:1"]


def test_files_are_relative_to_the_recipe(tmp_path: Path) -> None:
    for name in ("agent.tar", "network.yaml"):
        (tmp_path / name).touch()
    (tmp_path / "agent.yaml").write_text(yaml.safe_dump_all([CONFIG, AGENT]), encoding="utf-8")
    given = {"objects": ["agent.yaml"], "images": ["mine:1", "agent.tar"], "cni": "network.yaml"}
    parsed = parse_installation(given, tmp_path)
    assert parsed.objects == (CONFIG, AGENT)
    assert (parsed.images, parsed.cni) == (("mine:1", f"{tmp_path}/agent.tar"), f"{tmp_path}/network.yaml")


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ([], "key kind: expected a mapping of keys to values, not"),
        ({}, "key kind: expected objects, install, or both"),
        ({"object": [AGENT]}, "key kind: unknown key 'object'; did you mean objects"),
        ({"objects": ["none.yaml"]}, r"key kind.objects\[0\]: file none.yaml: cannot be read"),
        ({"objects": [CONFIG]}, "key kind.ready is missing: name the workloads to wait for"),
        ({"install": ["mine"]}, "key kind.ready is missing"),
        (
            {"install": ["{node}"], "ready": [{"daemonset": "a/b"}]},
            r"install\[0\]: unknown placeholder \{node\}",
        ),
        ({"objects": [AGENT], "images": ["none.tar"]}, r"key kind.images\[0\]: there is no file 'none.tar'"),
        ({"objects": [AGENT], "cni": "none.yaml"}, "key kind.cni: there is no file 'none.yaml'"),
        ({"objects": [AGENT], "ready": []}, "key kind.ready: expected a list of workloads, for example"),
        ({"objects": [AGENT], "ready": [{"pod": "a/b"}]}, r"key kind.ready\[0\]: unknown key 'pod'"),
        ({"objects": [AGENT], "ready": [{"daemonset": "b"}]}, "daemonset: expected NAMESPACE/NAME, not 'b'"),
        ({"objects": [AGENT], "ready_seconds": -1}, "key kind.ready_seconds: expected seconds from 0 to 600"),
    ],
)
def test_wrong_key_is_named_before_a_cluster_is_made(given: Any, said: str) -> None:
    with pytest.raises(UsageError, match=said):
        parse_installation(given, Path())


def test_recipe_for_kind_clusters_only_has_no_programs() -> None:
    recipe = parse_recipe({"name": "mine", "kind": {"objects": [AGENT]}}, OF_PROXY)
    assert recipe.programs == ()
    assert recipe.installation is not None


@pytest.mark.parametrize("key", ["ready", "synced", "pods", "objects", "requires"])
def test_key_of_programs_without_a_command_is_refused(key: str) -> None:
    with pytest.raises(UsageError, match=f"key {key}: applies to programs on the embedded cluster"):
        parse_recipe({"name": "mine", "kind": {"objects": [AGENT]}, key: []}, OF_PROXY)


def test_images_of_the_small_proxy_are_those_of_its_manifest() -> None:
    recipe = read_recipe(str(ROOT / "examples" / "small-proxy" / "on-kind.yaml"), OF_PROXY)
    assert recipe.installation is not None
    assert set(images_in(recipe.installation.objects)) == set(recipe.installation.images)
