"""Tests that an installation without extras runs the embedded cluster, and names the extra that a command needs."""

from __future__ import annotations

import os
import subprocess
import sys
from importlib.metadata import packages_distributions
from pathlib import Path

import pytest
from packaging.utils import canonicalize_name

from tests.package.test_dependencies import brought_by
from tests.package.wheel_environment import ROOT

CORE = set(brought_by("trafficdist", frozenset(), set()))
ALL = set(brought_by("trafficdist", frozenset({"all"}), set()))

NEED_EXTRAS = {
    "conformance.generated.strategies": "hypothesis",
    "harness.api.kubeconfig": "kubernetes",
    "harness.control_planes.containers": "docker",
}
"""The modules that import a package of an extra, and that package. The code calls `require` before it imports them."""

IMPORT_ALL = """
import importlib, pathlib, sys
for package in ("trafficdist", "reference", "harness", "explain", "emulator", "conformance", "mutants"):
    for path in sorted(pathlib.Path(package).rglob("*.py")):
        name = ".".join(path.with_suffix("").parts).removesuffix(".__init__")
        try:
            path.name == "__main__.py" or importlib.import_module(name)
        except ModuleNotFoundError as error:
            print(name, error.name.partition(".")[0])
"""


def without_extras(folder: Path) -> dict[str, str]:
    """Return an environment in which Python processes find no package that only an extra installs."""
    hidden = [
        module
        for module, distributions in packages_distributions().items()
        if (names := {canonicalize_name(each) for each in distributions}) <= ALL and not names & {*CORE, "trafficdist"}
    ]
    assert {"kubernetes", "docker", "testcontainers", "hypothesis", "requests"} <= {*hidden}
    (folder / "sitecustomize.py").write_text(f"import sys\nsys.modules.update(dict.fromkeys({hidden}))\n")
    kept = {
        name: value for name, value in os.environ.items() if not name.startswith(("TRAFFICDIST_", "PYTEST_", "COV_"))
    }
    return kept | {"PYTHONPATH": os.pathsep.join([str(folder), str(ROOT)]), "HOME": str(folder)}


def started(folder: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, *arguments]
    return subprocess.run(
        command, env=without_extras(folder), cwd=ROOT, capture_output=True, text=True, timeout=100, check=False
    )


def test_modules_outside_the_core_are_few(tmp_path: Path) -> None:
    done = started(tmp_path, "-c", IMPORT_ALL)
    assert done.returncode == 0, done.stderr
    assert dict(each.split() for each in done.stdout.splitlines()) == NEED_EXTRAS


@pytest.mark.parametrize(
    ("command", "feature", "packages", "extra"),
    [
        ("run --backend kubeconfig", "a cluster with a kubeconfig", "kubernetes", "kubeconfig"),
        ("doctor --backend kubeconfig", "a cluster with a kubeconfig", "kubernetes", "kubeconfig"),
        ("cleanup", "a cluster with a kubeconfig", "kubernetes", "kubeconfig"),
        ("explain shop/web", "a cluster with a kubeconfig", "kubernetes", "kubeconfig"),
        ("explain --all", "a cluster with a kubeconfig", "kubernetes", "kubeconfig"),
        ("explain shop/web --probe", "a cluster with a kubeconfig", "kubernetes", "kubeconfig"),
        ("run --backend kind", "--backend kind", "kubernetes", "kind"),
        ("doctor --backend kind", "--backend kind", "kubernetes", "kind"),
        ("run --generate 3", "--generate", "hypothesis", "generate"),
        ("run --control-plane containers:1.34", "--control-plane containers", "docker, testcontainers", "containers"),
    ],
)
def test_missing_extra_is_named_with_its_command(
    tmp_path: Path, command: str, feature: str, packages: str, extra: str
) -> None:
    done = started(tmp_path, "-m", "trafficdist", *command.split())
    text = " ".join((done.stdout + done.stderr).split())
    said = f"{feature} needs the Python package {packages}; install it with `pip install 'trafficdist[{extra}]'`"
    assert said in text
    assert done.returncode == 12, text
    assert "Traceback" not in text


def test_embedded_cluster_needs_no_extra_and_writes_all_reports(tmp_path: Path) -> None:
    results = tmp_path / "results"
    ids = ("KEP-3015/node-then-zone-then-anywhere", "KEP-536/api-describes-the-keys")
    asked = (*ids, "--workers", "1", "--output-dir", str(results))
    done = started(tmp_path, "-m", "trafficdist", "run", *asked)
    assert done.returncode == 0, done.stdout + done.stderr
    assert {"report.yaml", "report.html", "junit.xml", "allure-results"} <= {each.name for each in results.iterdir()}
    assert list((results / "allure-results").glob("*-result.json"))
