"""Tests the command for repeating a failure. Pasted into a shell, it has the options of the run."""

from __future__ import annotations

import shlex
from typing import Any

import pytest

from harness.commands.main import main
from harness.report.rerun import ELSEWHERE, command, command_of_pytest
from harness.settings.options import BY_NAME, OPTIONS, resolve
from harness.settings.settings import Settings


def in_force(line: str) -> Settings:
    """Return the settings that the `trafficdist` command derives from a command line."""
    words = shlex.split(line)
    variables = dict(word.split("=", 1) for word in words[: words.index("trafficdist")])
    program, name, *words = words[len(variables) :]
    assert (program, name) == ("trafficdist", "run")
    given = main.commands["run"].make_context("run", words).params
    return resolve({name: given.get(each.key) for name, each in BY_NAME.items()}, environment=variables)


@pytest.mark.parametrize(
    "given",
    [
        {},
        {"mutant": "skips-zone-tier", "seed": "7"},
        {"mutant": "takes-turns", "workers": "4", "keep": "always", "fail-fast": True},
        {"quick": True, "mutant": "node-as-zone"},
        {"proxy": "kube-proxy:1.31", "mode": "iptables"},
        {"control-plane": "binaries:1.31", "controller": "kube-controller-manager:1.30"},
        {"kubernetes-version": "1.29", "feature-gates": "TopologyAwareHints=true,ServiceTrafficDistribution=false"},
        {"topology": "a=2,b=2,c=1", "families": "IPv6", "follow": "released", "time-scale": "2.5"},
        {"exempt-features": "DualStack", "all-features": True, "organization": "Acme & Sons"},
        {"backend": "kubeconfig", "kubeconfig": "my clusters/prod 'a'", "context": "$HOME", "allow-disruptive": True},
        {"backend": "kubeconfig", "profile": "endpointslice-controller"},
        {"backend": "kind", "kind-image": "kindest/node:v1.34.3", "kind-patch": "1.30=1.30.14"},
    ],
)
def test_rerun_command_has_the_same_options(given: dict[str, Any]) -> None:
    settings = resolve({"backend": "netns", **given}, environment={})
    again = in_force(command(settings, "KEP-1/a"))
    assert again.run_test == ("KEP-1/a",)
    for option in OPTIONS:
        if option.name not in ELSEWHERE:
            assert getattr(again, option.key) == getattr(settings, option.key), option.name


def test_rerun_command_has_only_the_options_of_the_run() -> None:
    settings = resolve({"backend": "netns", "proxy": "kube-proxy", "seed": "7", "all-features": "no"}, environment={})
    assert command(settings, "KEP-1/a") == (
        "trafficdist run --run-test KEP-1/a --proxy kube-proxy --backend netns --seed 7"
    )


def test_options_of_environment_and_file_are_written_out(tmp_path: Any) -> None:
    file = tmp_path / "options.yaml"
    file.write_text("mutant: node-as-zone\n")
    environment = {"TRAFFICDIST_TOPOLOGY": "a=2,b=1"}
    settings = resolve({"backend": "netns"}, environment=environment, options_file=str(file))
    assert "--mutant node-as-zone --backend netns --topology a=2,b=1 " in command(settings, "KEP-1/a")


@pytest.mark.parametrize("said", [("--suite", "my suite"), ("--suite=my suite",)])
def test_third_party_suite_is_named(said: tuple[str, ...]) -> None:
    settings = resolve({"backend": "netns"}, environment={})
    assert " --suite 'my suite' " in command(settings, "KEP-1/a", arguments=["trafficdist", "run", *said])


def test_pytest_runs_its_own_tests_again() -> None:
    settings = resolve({"backend": "netns", "seed": "7"}, environment={})
    assert command_of_pytest(settings, "t.py::test_a[x y]") == (
        "pytest 't.py::test_a[x y]' --td-backend netns --td-seed 7"
    )
