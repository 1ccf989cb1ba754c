"""The installed wheel works without a checkout."""

from __future__ import annotations

import zipfile
from pathlib import Path

import pytest
import yaml

from tests.package.wheel_environment import ROOT, WheelEnvironment

PACKAGES = ("reference", "harness", "conformance")
KIND_CONFIGS = [path for path in (ROOT / "kind-configs").rglob("*") if path.is_file()]
MANIFESTS = ("deploy/rbac.yaml", *(str(path.relative_to(ROOT)) for path in KIND_CONFIGS))


def test_wheel_has_every_file_of_the_packages(wheel: Path) -> None:
    files = {path.relative_to(ROOT) for package in PACKAGES for path in (ROOT / package).rglob("*") if path.is_file()}
    wanted = {str(path) for path in files if "__pycache__" not in path.parts}
    assert wanted <= set(zipfile.ZipFile(wheel).namelist())


@pytest.mark.parametrize("name", MANIFESTS)
def test_manifests_that_texts_name_are_installed(installed: WheelEnvironment, name: str) -> None:
    assert (installed.folder / "share/trafficdist" / name).read_bytes() == (ROOT / name).read_bytes()


def test_no_module_is_imported_from_the_checkout(installed: WheelEnvironment, tmp_path: Path) -> None:
    places = "import harness, reference, conformance as c; print(harness.__file__, reference.__file__, c.__file__)"
    found = installed.run("python", "-c", places, cwd=tmp_path)
    assert [Path(each).parents[1] for each in found.stdout.split()] == [installed.packages] * 3, found.stderr


def test_requirement_is_judged_and_reported(installed: WheelEnvironment, tmp_path: Path) -> None:
    run = installed.run("trafficdist", "run", "--run-test", "KEP-3015/node-then-zone-then-anywhere", cwd=tmp_path)
    assert run.returncode == 0, run.stdout + run.stderr
    report = yaml.safe_load((tmp_path / "trafficdist-results/latest/report.yaml").read_text(encoding="utf-8"))
    [judged] = [test for test in report["tests"] if test["verdict"] == "passed"]
    assert judged["id"] == "KEP-3015/node-then-zone-then-anywhere"
    assert list(tmp_path.glob("trafficdist-results/latest/allure-results/*-result.json"))


@pytest.mark.slow
def test_workers_find_what_is_installed(installed: WheelEnvironment, tmp_path: Path) -> None:
    run = installed.run("trafficdist", "run", "--run-test", "KEP-3015/api-*", "-n", "1", cwd=tmp_path)
    assert run.returncode == 0, run.stdout + run.stderr


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["list", "--format", "json"], "KEP-3015/node-then-zone-then-anywhere"),
        (["doctor", "--help"], "--backend"),
        (["doctor", "--backend", "netns"], "kernel"),
    ],
)
def test_installed_command_runs(installed: WheelEnvironment, tmp_path: Path, arguments: list[str], said: str) -> None:
    answer = installed.run("trafficdist", *arguments, cwd=tmp_path)
    assert (answer.returncode, said in answer.stdout) == (0, True), answer.stdout + answer.stderr


@pytest.mark.slow
def test_cluster_boots_and_ends(installed: WheelEnvironment, tmp_path: Path) -> None:
    up = installed.run("trafficdist", "cluster", "up", "--topology", "a=1", cwd=tmp_path)
    down = installed.run("trafficdist", "cluster", "down", cwd=tmp_path)
    assert (up.returncode, down.stdout) == (0, "Cluster default is down.\n"), up.stdout + up.stderr


@pytest.mark.slow
def test_importing_projects_see_the_types(installed: WheelEnvironment, tmp_path: Path) -> None:
    scenario = "from harness.model.topology import parse_topology\nreveal_type(parse_topology('a=1').nodes)\n"
    (tmp_path / "scenario.py").write_text(scenario, encoding="utf-8")
    python = f"--python-executable={installed.folder}/bin/python"
    checked = installed.run("python", "-m", "mypy", "--strict", python, "scenario.py", cwd=tmp_path)
    assert checked.returncode == 0, checked.stdout + checked.stderr
    assert "harness.model.topology.Node" in checked.stdout
