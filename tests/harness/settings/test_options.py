"""Tests that options can come from several sources: their precedence, and errors that name the source."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from conformance.generated.runner import CORPUS
from harness.errors import UsageError
from harness.model.release import Release
from harness.model.topology import ONE_ZONE, THREE_ZONES
from harness.settings.options import BY_NAME, OPTIONS, Option, resolve, resolve_some
from harness.settings.settings import Settings


def test_nearest_source_of_an_option_wins(tmp_path: Path) -> None:
    file = tmp_path / "options.yaml"
    file.write_text("seed: 3\nproject: from-file\nversion: v1.2.3\nprofile: [dns, api-server]\n")
    settings = resolve(
        {"seed": "1"},
        environment={"TRAFFICDIST_SEED": "2", "TRAFFICDIST_PROJECT": "from-environment"},
        options_file=str(file),
        ini={"seed": "4", "organization": "from-ini"},
    )
    assert (settings.seed, settings.project, settings.version) == (1, "from-environment", "v1.2.3")
    assert (settings.organization, settings.profile) == ("from-ini", ("dns", "api-server"))


def test_the_options_file_may_be_named_in_the_environment(tmp_path: Path) -> None:
    (tmp_path / "o.yaml").write_text("fail-fast: yes\n")
    assert resolve({}, environment={"TRAFFICDIST_OPTIONS_FILE": str(tmp_path / "o.yaml")}).fail_fast is True


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("sed: 3", "options.yaml: unknown option 'sed'; did you mean seed"),
        ("seed: many", "options.yaml, key seed: 'many' is not a whole number"),
        ("- seed", "expected a mapping of option names to values, not list"),
        ("seed: [1, 2", "is not YAML"),
        ("fail-fast: perhaps", "key fail-fast: expected yes or no, not 'perhaps'"),
        ("profile: {dns: 1}", "key profile: expected a list of words"),
        ("keep: {a: b}", "key keep: expected one value"),
        ("feature-gates: [One=true, Two]", "key feature-gates: feature gate 'Two': expected Name=true or Name=false"),
        ("follow: both", "key follow: unknown value 'both'; allowed: kep, released"),
        ("backend: cloud", "unknown value 'cloud'; allowed: netns, kubeconfig, kind"),
    ],
)
def test_error_in_the_options_file_is_named(tmp_path: Path, text: str, said: str) -> None:
    (tmp_path / "options.yaml").write_text(text)
    with pytest.raises(UsageError) as refused:
        resolve({}, environment={}, options_file=str(tmp_path / "options.yaml"))
    assert said in str(refused.value)


def test_error_in_the_environment_is_named() -> None:
    with pytest.raises(UsageError, match="environment variable TRAFFICDIST_WORKERS: 'x' is neither a number"):
        resolve({}, environment={"TRAFFICDIST_WORKERS": "x"})
    with pytest.raises(UsageError, match="unknown environment variable 'TRAFFICDIST_SEEED'; did you mean"):
        resolve({}, environment={"TRAFFICDIST_SEEED": "1"})


def test_release_of_a_run_is_put_together_from_its_options() -> None:
    assert resolve({}, environment={}).release == Release()
    given = {"kubernetes-version": "1.33", "feature-gates": "One=true,Two=false", "follow": "released"}
    assert resolve(given, environment={}).release == Release("1.33", {"One": True, "Two": False}, "released")


def test_seed_is_random_only_for_generated_scenarios() -> None:
    assert resolve({}, environment={}).seed == 1
    generating = {"backend": "netns", "generate": "60s"}
    assert resolve(generating, environment={}).seed != resolve(generating, environment={}).seed


def test_settings_round_trip_to_a_worker() -> None:
    import json  # noqa: PLC0415

    given: dict[str, Any] = {"backend": "netns", "profile": ["dns"], "families": "IPv6", "time-scale": "2.5"}
    settings = resolve(given, environment={})
    assert Settings.from_json(json.loads(json.dumps(settings.to_json()))) == settings


def test_every_option_explains_itself() -> None:
    for option in OPTIONS:
        assert option.help.endswith((".", "]", ")"))


@pytest.mark.parametrize(("backend", "runs"), [("netns", False), ("kubeconfig", True)])
def test_a_real_cluster_may_have_fewer_nodes_than_scenarios_are_for(backend: str, runs: bool) -> None:
    settings = resolve({"backend": backend, "topology": "a=2,b=1,c=1"})
    assert (settings.topology_for(THREE_ZONES) is not None) is runs


def test_real_cluster_gets_no_special_topology() -> None:
    settings = resolve({"backend": "kubeconfig"})
    assert (settings.topology_for(THREE_ZONES), settings.topology_for(ONE_ZONE)) == (THREE_ZONES, None)


GIVEN = {
    "draw": "slices=each", "backend": "", "seed": "1",
    "time-scale": "2", "workers": "1", "kind-patch": "1.30=1.30.14", "profile": "dns",
    "proxy": "", "mode": "", "mutant": "takes-turns", "dns": "reference", "control-plane": "embedded",
    "controller": "reference",
    "feature-gates": "One=true", "follow": "kep", "topology": "three_zones", "families": "IPv4", "keep": "always",
    "kubernetes-version": "1.33", "kind-image": "kindest/node:v1.34.3", "converges-within": "5", "generate": "60s",
    "junit-warnings": "failure", "judges": "packets", "probes": "agnhost", "cni": str(CORPUS), "replay": str(CORPUS),
    "limits": "memory=300,log=0", "shard": "2/5",
}  # fmt: skip
"""A valid value for each option that checks its value; "" for options that are checked elsewhere."""


@pytest.mark.parametrize("backend", BY_NAME["backend"].allowed)
@pytest.mark.parametrize("option", OPTIONS, ids=lambda option: option.name)
def test_each_option_is_used_by_a_backend_or_refused(option: Option, backend: str) -> None:
    value = True if option.kind == "flag" else GIVEN.get(option.name, "some")
    variables = {"TRAFFICDIST_BACKEND": backend} | ({option.environment: str(value)} if value else {})
    if not option.backends or backend in option.backends:
        resolve({}, environment=variables)
        return
    allowed = " or ".join(option.backends)
    for given, environment, place in (
        ({"backend": backend, option.name: value}, {}, f"--{option.name}"),
        ({}, variables, f"environment variable {option.environment}"),
    ):
        with pytest.raises(UsageError) as refused:
            resolve(given, environment=environment)
        assert str(refused.value) == f"{place}: --backend {backend} does not support it; --backend {allowed} does"


def test_each_backend_refuses_unused_options() -> None:
    """The expected table lists the options that each backend does not use. New options may need an entry."""
    unused = {
        backend: {each.name for each in OPTIONS if each.backends and backend not in each.backends}
        for backend in BY_NAME["backend"].allowed
    }
    of_netns = {"dns", "control-plane", "controller", "mutant", "kubernetes-version", "limits"}
    of_somebody, of_kind = (
        {"kubeconfig", "context", "allow-disruptive"},
        {"kind-image", "kind-patch", "keep-cluster", "cni"},
    )
    assert unused == {
        "netns": of_somebody | of_kind | {"image-registry", "probes"},
        "kubeconfig": of_netns | of_kind | {"families"},
        "kind": of_netns | of_somebody,
    }


def test_disabled_option_is_not_refused() -> None:
    assert not resolve({"backend": "netns"}, environment={"TRAFFICDIST_KEEP_CLUSTER": "no"}).keep_cluster


def test_command_other_than_run_accepts_only_its_own_options() -> None:
    assert resolve_some({"kubeconfig": None, "context": "here"}) == {"kubeconfig": "", "context": "here"}
    assert resolve_some({"image_registry": "mirror.example"}) == {"image_registry": "mirror.example"}
