"""Tests the notation of releases and feature gates in scenarios and options."""

from __future__ import annotations

import pytest

from harness.control_planes.embedded import features_of, node_level_of
from harness.errors import UsageError
from harness.model.release import Component, Release, parse_gates, release
from reference.endpointslice.node_level import MissingNodesLimit, NodeLevel


def test_components_start_in_the_order_of_an_upgrade() -> None:
    assert list(Component)[:3] == [Component.API_SERVER, Component.CONTROLLER, Component.PROXY]


@pytest.mark.parametrize(
    ("one", "text"),
    [
        (release(), "newest"),
        (release("1.30"), "1.30"),
        (release("1.30", ServiceTrafficDistribution=True), "1.30 ServiceTrafficDistribution=true"),
        (release("1.33", B=False, A=True), "1.33 A=true,B=false"),
        (release("1.32", A=True, node_level="opt-in:daemonset"), "1.32 A=true opt-in:daemonset"),
    ],
)
def test_release_round_trips_as_text(one: Release, text: str) -> None:
    assert str(one) == text


def test_history_has_all_of_a_release() -> None:
    one = Release("1.33", {"PreferSameTrafficDistribution": True}, "released")
    wanted = {"version": "1.33", "gates": {"PreferSameTrafficDistribution": True}, "follows": "released"}
    assert one.to_json() == wanted
    assert release("1.32", node_level="automatic").to_json()["nodeLevel"] == "automatic"


def test_gates_are_read_as_kubernetes_writes_them() -> None:
    assert parse_gates(()) == {}
    assert parse_gates(("One=true", "Two=False")) == {"One": True, "Two": False}


@pytest.mark.parametrize("text", ["", "One", "One=", "=true", "One=yes"])
def test_malformed_gate_is_refused(text: str) -> None:
    with pytest.raises(UsageError, match="expected Name=true or Name=false"):
        parse_gates((text,))


def test_reference_behaves_as_the_requested_release() -> None:
    alpha = features_of(release("1.33", PreferSameTrafficDistribution=True))
    assert (alpha.version, alpha.follows) == ((1, 33), "kep")
    assert alpha.enabled("PreferSameTrafficDistribution")
    assert not features_of(release("1.33")).enabled("PreferSameTrafficDistribution")
    assert features_of(Release(follows="released")).follows == "released"


def test_reference_controller_selects_services_as_configured() -> None:
    assert node_level_of(release()) is None
    assert node_level_of(release(node_level="automatic:missing=1")) == NodeLevel(
        "automatic", MissingNodesLimit(1), daemon_set=False
    )
    with pytest.raises(UsageError, match="expected manual, automatic, opt-in or opt-out"):
        node_level_of(release(node_level="always"))


def test_removed_gate_is_available_on_request() -> None:
    asked = features_of(release("1.37", ServiceTopology=True))
    assert (asked.enabled("ServiceTopology"), asked.asked_for) == (True, frozenset({"ServiceTopology"}))
    assert not features_of(release("1.37")).enabled("ServiceTopology")
    assert features_of(release("1.21", ServiceTopology=True)).asked_for == frozenset()


@pytest.mark.parametrize("version", ["1.38", "v1.38", "1.38.0", "v1.38.0-alpha.2", "1.38.0-beta.0", "1.38.1+vendor.2"])
def test_pre_release_and_build_have_the_features_of_their_minor_version(version: str) -> None:
    assert features_of(release(version)).version == (1, 38)


@pytest.mark.parametrize(
    ("wrong", "said"),
    [
        (release("1.38-beta.0"), "unknown Kubernetes version '1.38-beta.0'"),
        (release("1.41.0-alpha.1"), "unknown Kubernetes version '1.41.0-alpha.1'"),
        (release("1.16"), "unknown Kubernetes version '1.16': known versions are 1.17 to 1.40"),
        (
            release("1.34", NoSuch=True),
            "feature gate 'NoSuch' does not exist in Kubernetes 1.34, which has NFTablesProxyMode, PreferSame",
        ),
        (
            release("1.32", PreferSameTrafficDistribution=True),
            "does not exist in Kubernetes 1.32, which has NFTablesProxyMode, Proxy",
        ),
        (release("1.33", ServiceTrafficDistribution=False), "is locked to true since Kubernetes 1.33"),
    ],
)
def test_unknown_release_is_refused_with_the_known_ones(wrong: Release, said: str) -> None:
    with pytest.raises(UsageError, match=said):
        features_of(wrong)
