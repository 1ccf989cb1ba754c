"""Tests the claims that follow from options, and options that exclude each other."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import yaml

from harness.errors import UsageError
from harness.model.release import PROXY
from harness.model.release_features import lacking
from harness.run import suite_files
from harness.settings.implementations import of_settings
from harness.settings.options import resolve


@pytest.mark.parametrize(
    ("version", "gates", "features"),
    [
        (
            "1.21",
            {},
            """InternalTrafficPolicy LoadBalancerIPMode NodeHints NodeLevelTopology ProxyHealth TerminatingEndpoints
            ZoneHints""",
        ),
        ("1.29", {}, "LoadBalancerIPMode NodeHints NodeLevelTopology ProxyHealth ZoneHints"),
        ("1.29", {"NodeLevelTopology": True}, "LoadBalancerIPMode NodeHints ProxyHealth ZoneHints"),
        ("1.30", {}, "NodeHints NodeLevelTopology ZoneHints"),
        ("1.30", {"ServiceTrafficDistribution": True}, "NodeHints NodeLevelTopology"),
        ("v1.31.3", {}, "NodeHints NodeLevelTopology"),
        ("1.33", {}, "NodeHints NodeLevelTopology"),
        ("1.33", {"PreferSameTrafficDistribution": True}, ""),
        ("1.34", {}, ""),
        ("1.34", {"PreferSameTrafficDistribution": False}, "NodeHints NodeLevelTopology"),
        ("1.37", {}, ""),
        ("", {}, ""),
    ],
)
def test_proxy_of_a_release_lacks_features_not_in_its_history(
    version: str, gates: dict[str, bool], features: str
) -> None:
    assert lacking(version, gates, PROXY) == tuple(features.split())


def test_each_feature_of_the_history_is_one_of_the_suite() -> None:
    assert set(lacking("1.17", {})) <= set(suite_files.features())


def test_old_reference_claims_the_features_of_its_release() -> None:
    settings = resolve({"kubernetes-version": "1.31"}, environment={})
    assert {"NodeHints", "PreferSameNode", "PreferSameValues"} <= set(settings.exempt_features)
    assert "ZoneHints" not in settings.exempt_features
    assert resolve({"kubernetes-version": "1.37"}, environment={}).exempt_features == ()


def test_benign_variant_does_not_claim_what_it_lacks() -> None:
    settings = resolve({"mutant": "follows-hints-where-asked"}, environment={})
    assert set(settings.exempt_features) == {"HintsOnAnyService", "NodeLevelTopology", "NodeLevelTopologyRouting"}
    assert resolve({"mutant": "takes-turns"}, environment={}).exempt_features == ()


def test_gate_brings_a_feature_before_its_time() -> None:
    given = {"kubernetes-version": "1.33", "feature-gates": "PreferSameTrafficDistribution=true"}
    assert resolve(given, environment={}).exempt_features == ("DeprecationWarnings",)


def test_exemptions_add_to_what_a_release_lacks_and_support_wins() -> None:
    given = {"kubernetes-version": "1.31", "exempt-features": "UDP", "supported-features": "NodeHints"}
    exempt = resolve(given, environment={}).exempt_features
    assert {"UDP", "PreferSameZone"} <= set(exempt)
    assert "NodeHints" not in exempt


def test_kube_proxy_follows_released_kubernetes_and_is_judged_as_a_proxy() -> None:
    settings = resolve({"proxy": "kube-proxy"}, environment={})
    assert (settings.follow, settings.profile, settings.mode) == ("released", ("service-proxy",), "nftables")
    assert "SessionAffinity" in settings.supported_features


@pytest.mark.parametrize(
    ("image", "version", "exempt"),
    [
        ("kindest/node:v1.33.12@sha256:" + "0" * 64, "v1.33.12", ("NodeHints", "NodeLevelTopology")),
        ("mirror.example:5000/node:v1.34.0", "v1.34.0", ()),
        ("node@sha256:" + "0" * 64, "", ()),
    ],
)
def test_kind_cluster_claims_what_the_kube_proxy_of_its_image_has(
    image: str, version: str, exempt: tuple[str, ...]
) -> None:
    settings = resolve({"backend": "kind", "kind-image": image, "mode": "ipvs"}, environment={})
    assert (settings.project, settings.version, settings.exempt_features) == ("kube-proxy", version, exempt)
    assert (settings.mode, settings.profile, settings.follow) == ("ipvs", ("service-proxy",), "released")
    assert "SessionAffinity" in settings.supported_features


def test_option_takes_precedence() -> None:
    given = {"proxy": "kube-proxy", "follow": "kep", "profile": "cluster", "project": "mine", "mode": "iptables"}
    settings = resolve(given, environment={})
    assert (settings.follow, settings.profile, settings.project) == ("kep", ("cluster",), "mine")
    assert settings.mode == "iptables"


def test_all_features_includes_those_a_version_lacks() -> None:
    assert resolve({"proxy": "kube-proxy", "all-features": True}, environment={}).exempt_features == ()


def test_reference_claims_are_unchanged() -> None:
    settings = resolve({}, environment={})
    assert (str(settings.proxy), settings.mode, settings.follow, settings.profile) == (
        "reference",
        "nftables",
        "kep",
        (),
    )


def test_file_states_its_claims(tmp_path: Path) -> None:
    recipe = {"name": "mine", "command": ["x"], "ready": [{"log": "up"}], "modes": ["ebpf"], "follows": "kep"}
    (tmp_path / "mine.yaml").write_text(yaml.safe_dump(recipe | {"supported_features": ["IPv6"]}), encoding="utf-8")
    settings = resolve({"proxy": str(tmp_path / "mine.yaml")}, environment={})
    assert (settings.mode, settings.follow, settings.project) == ("ebpf", "kep", "mine")
    assert settings.supported_features == ("IPv6",)


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({"proxy": "reference", "mode": "iptables"}, "--mode iptables: --proxy reference supports only nftables"),
        ({"proxy": "kube-proxy", "mode": "ebpf"}, "--proxy kube-proxy supports only nftables, iptables, ipvs"),
        ({"proxy": "kube-proxy", "mutant": "ignores-zone-hints"}, "--mutant selects a fault in the reference"),
        ({"proxy": "installed"}, "judges the proxy of a real cluster, and nodes of --backend netns have none"),
        ({"proxy": "kube-proxi"}, "--proxy: unknown proxy 'kube-proxi'; allowed: reference, kube-proxy"),
        ({"proxy": "kube-proxy:"}, "unknown proxy 'kube-proxy:'"),
        ({"proxy": "kube-proxy:new"}, "version 'new': expected one like 1.34.2"),
        ({"proxy": "none.yaml"}, "proxy file none.yaml: cannot be read"),
    ],
)
def test_incompatible_options_are_refused(given: dict[str, Any], said: str) -> None:
    with pytest.raises(UsageError, match=said):
        resolve(given, environment={})


KIND: dict[str, Any] = {"name": "mine", "kind": {"install": ["x"], "ready": [{"daemonset": "a/b"}], "cni": "none"}}


def test_recipe_of_a_kind_cluster_says_what_it_claims_and_what_connects_pods(tmp_path: Path) -> None:
    file = tmp_path / "mine.yaml"
    file.write_text(yaml.safe_dump(KIND | {"modes": ["ebpf"], "version": "1"}), encoding="utf-8")
    settings = resolve({"backend": "kind", "proxy": str(file)}, environment={})
    assert (settings.mode, settings.cni, settings.project, settings.converges_within) == ("ebpf", "none", "mine", 0.0)
    assert settings.profile == ("service-proxy",)
    given = resolve({"backend": "kind", "proxy": str(file), "cni": str(file)}, environment={})
    assert given.cni == str(file)


@pytest.mark.parametrize(
    ("recipe", "given", "said"),
    [
        (KIND, {}, "it has no command, only key kind: use --backend kind"),
        (KIND, {"backend": "kubeconfig"}, "a cluster of --backend kubeconfig has its own proxy"),
        ({"name": "x", "command": ["x"], "ready": [{"log": "x"}]}, {"backend": "kind"}, "key kind is missing"),
        (KIND, {"backend": "kind", "mode": "ipvs"}, "--mode ipvs: --proxy .*mine.yaml supports only unknown"),
    ],
)
def test_recipe_is_for_its_backends(recipe: dict[str, Any], given: dict[str, Any], said: str, tmp_path: Path) -> None:
    (tmp_path / "mine.yaml").write_text(yaml.safe_dump(recipe), encoding="utf-8")
    with pytest.raises(UsageError, match=said):
        resolve({"proxy": str(tmp_path / "mine.yaml"), **given}, environment={})


@pytest.mark.parametrize(
    ("given", "said"),
    [
        (
            {"cni": "none"},
            "--cni none: nodes do not become ready without a network plugin, which only a recipe can provide",
        ),
        ({"cni": "no-such.yaml"}, "--cni: there is no file no-such.yaml"),
        ({"mode": "none"}, "--mode none: a cluster without kube-proxy needs a recipe"),
        ({"proxy": "kube-proxy"}, "use --proxy installed, or omit --proxy; --backend kind also accepts a recipe with"),
    ],
)
def test_incomplete_kind_cluster_requires_a_recipe(given: dict[str, Any], said: str) -> None:
    with pytest.raises(UsageError, match=said):
        resolve({"backend": "kind", **given}, environment={})


@pytest.mark.parametrize(
    ("given", "seconds"),
    [
        ({}, 5.0),
        ({"proxy": "kube-proxy"}, 5.0),
        ({"controller": "kube-controller-manager"}, 10.0),
        ({"control-plane": "binaries:1.34", "proxy": "kube-proxy"}, 10.0),
        ({"backend": "kubeconfig"}, 0.0),
        ({"backend": "kind"}, 10.0),
        ({"backend": "kubeconfig", "converges-within": "2.5"}, 2.5),
    ],
)
def test_a_bound_of_convergence_is_what_an_implementation_declares(given: dict[str, str], seconds: float) -> None:
    assert resolve(given, environment={}).converges_within == seconds


def test_recipe_can_declare_a_convergence_bound(tmp_path: Path) -> None:
    recipe = tmp_path / "proxy.yaml"
    said = {"name": "x", "command": ["x"], "ready": [{"log": "x"}]}
    recipe.write_text(yaml.safe_dump(said), encoding="utf-8")
    assert resolve({"proxy": str(recipe)}, environment={}).converges_within == 0.0
    recipe.write_text(yaml.safe_dump({**said, "converges_within": 3}), encoding="utf-8")
    assert resolve({"proxy": str(recipe)}, environment={}).converges_within == 3.0


def test_recipe_selects_judging_decisions_and_an_option_overrides_it(tmp_path: Path) -> None:
    recipe = tmp_path / "proxy.yaml"
    recipe.write_text("{name: x, command: [x], ready: [{log: x}], judges: decisions}", encoding="utf-8")
    assert resolve({"proxy": str(recipe)}, environment={}).judges == "decisions"
    assert resolve({"proxy": str(recipe), "judges": "packets"}, environment={}).judges == "packets"
    assert resolve({}, environment={}).judges == "packets"


def test_recipe_states_fields_of_every_service(tmp_path: Path) -> None:
    recipe = tmp_path / "proxy.yaml"
    recipe.write_text("{name: x, command: [x], ready: [{log: x}], services: {spec: {a: 1}}}", encoding="utf-8")
    assert of_settings(resolve({"proxy": str(recipe)}, environment={})).services == {"spec": {"a": 1}}
    assert of_settings(resolve({}, environment={})).services == {}


def test_controller_of_a_recipe_brings_its_claims(tmp_path: Path) -> None:
    recipe = tmp_path / "mine.yaml"
    said = {"name": "mine", "version": 7, "command": ["x"], "ready": [{"log": "up"}], "follows": "released"}
    recipe.write_text(yaml.safe_dump(said | {"supported_features": ["DualStack"]}), encoding="utf-8")
    settings = resolve({"controller": str(recipe)}, environment={})
    assert (settings.project, settings.version, settings.follow) == ("mine", "7", "released")
    assert (settings.profile, settings.supported_features) == (("endpointslice-controller",), ("DualStack",))
    assert settings.converges_within == 0.0  # not declared; the reference proxy's value does not apply
    with pytest.raises(UsageError, match="runs with the embedded API server: omit --control-plane"):
        resolve({"controller": str(recipe), "control-plane": "binaries:1.37"}, environment={})
    with pytest.raises(UsageError, match="--mutant selects a fault in the reference"):
        resolve({"controller": str(recipe), "mutant": "skips-zone-tier"}, environment={})
