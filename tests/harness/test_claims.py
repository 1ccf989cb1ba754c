"""What is claimed where nobody says otherwise, and options that do not go together."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import yaml

from harness.claims import lacking
from harness.errors import UsageError
from harness.options import resolve


@pytest.mark.parametrize(
    ("version", "gates", "features"),
    [
        ((1, 29), {}, ("NodeHints", "ZoneHints")),
        ((1, 30), {}, ("NodeHints", "ZoneHints")),
        ((1, 30), {"ServiceTrafficDistribution": True}, ("NodeHints",)),
        ((1, 31), {}, ("NodeHints",)),
        ((1, 33), {}, ("NodeHints",)),
        ((1, 33), {"PreferSameTrafficDistribution": True}, ()),
        ((1, 34), {}, ()),
        ((1, 34), {"PreferSameTrafficDistribution": False}, ("NodeHints",)),
        ((1, 37), {}, ()),
    ],
)
def test_kube_proxy_lacks_what_history_says(
    version: tuple[int, int], gates: dict[str, bool], features: tuple[str, ...]
) -> None:
    assert lacking(version, gates) == features


def test_kube_proxy_follows_released_kubernetes_and_is_judged_as_a_proxy() -> None:
    settings = resolve({"proxy": "kube-proxy"}, environment={})
    assert (settings.follow, settings.profile, settings.mode) == ("released", ("service-proxy",), "nftables")
    assert "SessionAffinity" in settings.supported_features


@pytest.mark.parametrize(
    ("image", "version", "exempt"),
    [
        ("kindest/node:v1.33.12@sha256:" + "0" * 64, "v1.33.12", ("NodeHints",)),
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


def test_what_an_option_says_wins() -> None:
    given = {"proxy": "kube-proxy", "follow": "kep", "profile": "cluster", "project": "mine", "mode": "iptables"}
    settings = resolve(given, environment={})
    assert (settings.follow, settings.profile, settings.project) == ("kep", ("cluster",), "mine")
    assert settings.mode == "iptables"


def test_all_features_asks_for_what_a_version_lacks_too() -> None:
    assert resolve({"proxy": "kube-proxy", "all-features": True}, environment={}).exempt_features == ()


def test_reference_claims_as_before() -> None:
    settings = resolve({}, environment={})
    assert (settings.proxy, settings.mode, settings.follow, settings.profile) == ("reference", "nftables", "kep", ())


def test_file_says_what_it_claims(tmp_path: Path) -> None:
    recipe = {"name": "mine", "command": ["x"], "ready": [{"log": "up"}], "modes": ["ebpf"], "follows": "kep"}
    (tmp_path / "mine.yaml").write_text(yaml.safe_dump(recipe | {"supported_features": ["IPv6"]}), encoding="utf-8")
    settings = resolve({"proxy": str(tmp_path / "mine.yaml")}, environment={})
    assert (settings.mode, settings.follow, settings.project) == ("ebpf", "kep", "mine")
    assert settings.supported_features == ("IPv6",)


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({"proxy": "reference", "mode": "iptables"}, "--mode iptables: --proxy reference has mode nftables"),
        ({"proxy": "kube-proxy", "mode": "ebpf"}, "--proxy kube-proxy has mode nftables, iptables, ipvs"),
        ({"proxy": "kube-proxy", "mutant": "ignores-zone-hints"}, "--mutant is a fault in the reference"),
        ({"proxy": "installed"}, "the nodes of --backend netns run none of their own"),
        ({"proxy": "kube-proxi"}, "--proxy: unknown proxy 'kube-proxi'; allowed: reference, kube-proxy"),
        ({"proxy": "kube-proxy:"}, "unknown proxy 'kube-proxy:'"),
        ({"proxy": "kube-proxy:new"}, "version 'new': want one like 1.34.2"),
        ({"proxy": "none.yaml"}, "proxy file none.yaml: cannot be read"),
    ],
)
def test_what_does_not_go_together_is_refused(given: dict[str, Any], said: str) -> None:
    with pytest.raises(UsageError, match=said):
        resolve(given, environment={})
