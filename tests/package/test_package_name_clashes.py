"""A user's project may have packages with our names.

The user's pytest runs and the `trafficdist` command still work.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.package.wheel_environment import WheelEnvironment

NAMES = ("harness", "conformance", "reference", "explain", "emulator", "mutants", "tools")
OWN_TEST = "from harness import answer\n\ndef test_answer():\n    assert answer == 42\n"
REQUIREMENT = """
from trafficdist import MUST, Cluster, Feature, Profile, endpoint, expect_traffic, requirement

ROUTING = Feature("OwnRouting", Profile.SERVICE_PROXY, True, "Routes.")

@requirement("OWN/reaches", "A client reaches the endpoint.", level=MUST, features={ROUTING}, source="ours")
def test_reaches(three_zones: Cluster) -> None:
    service = three_zones.create_service()
    [pod] = three_zones.run_servers(on=["a1"])
    three_zones.publish(service, [endpoint(pod)])
    expect_traffic(three_zones, service, {"b1": {pod}})
"""


@pytest.fixture(params=["__init__.py", ""], ids=["packages", "folders"])
def project(request: pytest.FixtureRequest, tmp_path: Path) -> Path:
    """Return a project with a folder for each of our package names, and a test that imports one of them."""
    for name in NAMES:
        (tmp_path / name).mkdir()
        if request.param:
            (tmp_path / name / request.param).write_text("answer = 42\n", encoding="utf-8")
    if request.param:
        (tmp_path / "test_own.py").write_text(OWN_TEST, encoding="utf-8")
    else:
        (tmp_path / "test_own.py").write_text("def test_nothing(): pass\n", encoding="utf-8")
    return tmp_path


def test_pytest_runs_the_tests_of_the_project(installed: WheelEnvironment, project: Path) -> None:
    run = installed.run("python", "-m", "pytest", "-q", "test_own.py", cwd=project)
    assert run.returncode == 0, run.stdout + run.stderr


@pytest.mark.parametrize("command", [("trafficdist",), ("python", "-m", "trafficdist")])
def test_command_finds_its_own_packages(installed: WheelEnvironment, project: Path, command: tuple[str, ...]) -> None:
    run = installed.run(*command, "list", "KEP-3015/node-then-zone-then-anywhere", cwd=project)
    assert (run.returncode, "KEP-3015/node-then-zone-then-anywhere" in run.stdout) == (0, True), run.stdout + run.stderr


def test_pytest_judges_a_requirement_of_the_project(installed: WheelEnvironment, project: Path) -> None:
    """The worker imports all that a run without workers imports, and the controller imports the rest."""
    (project / "test_suite.py").write_text(REQUIREMENT, encoding="utf-8")
    options = ("--td-backend=netns", "--td-workers=1", "test_suite.py")
    run = installed.run("python", "-m", "pytest", *options, cwd=project)
    assert run.returncode == 0, run.stdout + run.stderr


def test_project_package_imported_before_is_named(installed: WheelEnvironment, project: Path) -> None:
    if not (project / "harness/__init__.py").exists():
        pytest.skip("a folder without __init__.py does not hide a package")
    asked = "import harness, trafficdist; trafficdist.Cluster"
    run = installed.run("python", "-c", asked, cwd=project)
    assert run.returncode == 1
    assert "package 'harness' of trafficdist cannot be imported:" in run.stderr
    assert str(project) in run.stderr
