"""Tests that the images of a recipe are loaded from the engine onto the nodes of a kind cluster."""

from __future__ import annotations

from pathlib import Path

import pytest
import yaml

from harness.backends.containers.engine import EngineFacts, find_engine
from harness.backends.kind.checks import KindTools
from harness.backends.kind.installer import load_images, require_images
from harness.binaries.versions import Version
from harness.checks.check import CheckState, examine
from harness.errors import StartError, UnavailableError
from harness.recipes.recipe import OF_PROXY, parse_recipe
from harness.run.prerequisites import KIND as CHECKS
from harness.settings.options import resolve
from tests.harness.backends.kind.conftest import Install

ENGINE = """echo "$*" >> "$0.asked"
case "$1 $3" in
  "image mine:1") ;;
  "image "*) exit 1;;
esac"""
INFO = '{"ServerVersion": "28.0.0", "CgroupVersion": "2", "KernelVersion": "6.8.0"}'
KIND = 'echo "$*" >> "$0.asked"'
AGENT = {"apiVersion": "apps/v1", "kind": "DaemonSet", "metadata": {"name": "agent"}}


def tools(install: Install, kind: str = KIND) -> KindTools:
    program = install("kind", kind)
    install("docker", ENGINE)
    return KindTools(program, Version(0, 33, 0), find_engine(), EngineFacts("28.0.0", "", 0, "6.8.0", "2"))


def asked(tools: KindTools, program: str) -> str:
    file = tools.kind.with_name(f"{program}.asked")
    return file.read_text(encoding="utf-8") if file.exists() else ""


def test_images_of_the_engine_are_loaded_and_nodes_pull_the_rest(install: Install, tmp_path: Path) -> None:
    found = tools(install)
    load_images(found, "c", ["mine:1", "theirs:1", "mine:1", "a.tar"], tmp_path / "log", [].append)
    saved = [line for line in asked(found, "docker").splitlines() if line.startswith("save")]
    assert len(saved) == 1
    assert saved[0].endswith("images.tar mine:1")
    loaded = asked(found, "kind").splitlines()
    assert loaded[0] == "load image-archive a.tar --name c"
    assert loaded[1].endswith("images.tar --name c")


def test_no_image_is_saved_when_the_engine_has_none(install: Install, tmp_path: Path) -> None:
    found = tools(install)
    load_images(found, "c", ["theirs:1"], tmp_path / "log", [].append)
    assert asked(found, "kind") == ""


def test_first_error_of_kind_is_reported(install: Install, tmp_path: Path) -> None:
    found = tools(install, "echo 'ERROR: no space left on device'; exit 1")
    with pytest.raises(StartError, match=r"kind load exited with 1; the first error of its log.*no space left"):
        load_images(found, "c", ["mine:1"], tmp_path / "log", [].append)


def test_image_that_a_recipe_names_is_required_before_a_cluster_is_made(install: Install) -> None:
    found = tools(install)
    recipe = parse_recipe({"name": "mine", "kind": {"objects": [AGENT], "images": ["mine:1", "none:1"]}}, OF_PROXY)
    with pytest.raises(UnavailableError, match=r"mine: docker has no image none:1 \(key kind.images\); build it"):
        require_images(found, recipe)


def test_doctor_reports_images_that_nodes_must_pull(install: Install, tmp_path: Path) -> None:
    install("docker", f"[ $1 = info ] && {{ echo '{INFO}'; exit; }}\n{ENGINE}")
    install("kind", "echo kind version 0.33.0")
    pod = {"template": {"spec": {"containers": [{"image": "mine:1"}, {"image": "theirs:1"}]}}}
    told = {"objects": [{**AGENT, "spec": pod}], "install": ["no-such-installer"], "images": ["mine:1"]}
    (tmp_path / "mine.yaml").write_text(yaml.safe_dump({"name": "mine", "kind": told}), encoding="utf-8")
    given = {"backend": "kind", "proxy": str(tmp_path / "mine.yaml"), "kind-image": "kindest/node:v1.34.3"}
    found = [each for each in examine(CHECKS, resolve(given, environment={})) if each.name.startswith("proxy")]
    assert [(each.state, each.found) for each in found] == [
        (CheckState.OK, "mine: all images in key kind.images are available"),
        (CheckState.UNKNOWN, "theirs:1: not in docker; the nodes pull them"),
        (CheckState.UNUSABLE, "mine: program no-such-installer is not installed"),
    ]
