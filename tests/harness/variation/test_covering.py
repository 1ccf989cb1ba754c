"""The draws of a run cover all pairs of values, and each value meets each feature."""

import functools
import itertools
import random
from pathlib import Path

import pytest

from harness.model.requirements import Profile
from harness.plugin import suite
from harness.run.random_values import draws_of, fixed
from harness.settings.options import resolve
from harness.variation.axes import AXES, SHARES, parse_draw
from harness.variation.covering import VariedRequirement, combinations, draws

catalogue = functools.cache(suite.catalogue)

ALL = {axis: tuple(values) for axis, values in AXES.items()}


def subjects(count: int, *, fixed: frozenset[str] = frozenset()) -> list[VariedRequirement]:
    return [VariedRequirement(f"KEP-1/r{number}", "dns", {f"F{number % 3}"}, fixed) for number in range(count)]


def chosen(draw_text: str) -> dict[str, str]:
    draw = parse_draw(draw_text)
    return {axis: draw[axis] for axis in ALL}


@pytest.mark.parametrize("seed", [1, 2, 3])
def test_a_hundred_requirements_cover_all_pairs(seed: int) -> None:
    found = draws(subjects(100), seed)
    covered = {each for draw in found.values() for each in combinations(chosen(str(draw)), ())}
    wanted = {
        frozenset(((one, a), (other, b)))
        for one, other in itertools.combinations(ALL, 2)
        for a in ALL[one]
        for b in ALL[other]
    }
    assert wanted <= covered


def test_fixed_axes_and_unavailable_values_are_never_drawn() -> None:
    found = draws(subjects(50, fixed=frozenset({"names", "family=second"})), 1)
    assert {draw["names"] for draw in found.values()} == {"short"}
    assert {draw["family"] for draw in found.values()} == {"first"}


def test_draws_depend_on_the_seed_alone() -> None:
    known = subjects(30)
    again = random.Random(0).sample(known, len(known))
    assert draws(known, 7) == draws(again, 7)
    assert draws(known, 7) != draws(known, 8)


def test_profiles_are_covered_separately() -> None:
    known = subjects(20)
    others = [VariedRequirement(f"KEP-2/r{number}", "api-server", {"G"}, frozenset()) for number in range(20)]
    assert draws([*known, *others], 1) == draws(known, 1) | draws(others, 1)


@pytest.mark.parametrize("seed", [1, 2, 3, 20261127])
def test_each_value_meets_each_feature_that_has_enough_requirements(seed: int) -> None:
    known = catalogue()
    settings = resolve({"backend": "netns", "seed": seed}, environment={})
    found = {each: parse_draw(text) for each, text in draws_of(known, settings).items()}
    never = {each.id: fixed(each) for each in known}
    for feature in {feature.name for each in known for feature in each.features}:
        mine = [each.id for each in known if feature in {other.name for other in each.features}]
        for axis, known_values in AXES.items():
            for value in known_values:
                free = [each for each in mine if not {axis, f"{axis}={value}"} & never[each]]
                values = {found[each][axis] for each in free}
                assert value in values or len(free) <= len(known_values), (feature, axis, value)


@pytest.mark.parametrize("profile", ["service-proxy", "endpointslice-controller"])
def test_all_pairs_occur_in_a_profile(profile: str) -> None:
    known = [each for each in catalogue() if each.profile == profile]
    found = draws_of(known, resolve({"backend": "netns"}, environment={}))
    covered = {each for text in found.values() for each in combinations(chosen(text), ())}
    never = set.intersection(*map(fixed, known))
    free = [(axis, value) for axis in ALL for value in ALL[axis] if not {axis, f"{axis}={value}"} & never]
    wanted = {frozenset(pair) for pair in itertools.combinations(free, 2) if pair[0][0] != pair[1][0]}
    assert wanted <= covered


def test_chosen_draw_holds_for_all_requirements_but_for_fixed_axes() -> None:
    known = catalogue()
    found = draws_of(known, resolve({"backend": "netns", "draw": "slices=each,owner=nobody"}, environment={}))
    by_id = {each.id: each for each in known}
    assert found["KEP-4444/zone-hints-keep-traffic-in-the-zone"] == "slices=each,owner=nobody"
    assert parse_draw(found["KEP-4444/slices-of-others-are-left-alone"])["owner"] == "suite"
    assert all(parse_draw(text).without(*fixed(by_id[each])) == parse_draw(text) for each, text in found.items())


def test_values_without_effect_in_a_profile_are_never_drawn() -> None:
    found = draws_of(catalogue(), resolve({"backend": "netns"}, environment={}))
    drawn = {each.profile: set[tuple[str, str]]() for each in catalogue()}
    for each in catalogue():
        drawn[each.profile] |= set(parse_draw(found[each.id]).values)
    assert {("arrival", "slices"), ("nodes", "late"), ("client", "endpoint")} <= drawn[Profile.SERVICE_PROXY]
    assert not {("arrival", "slices"), ("nodes", "late"), ("client", "endpoint")} & drawn[Profile.CLUSTER]
    assert {("components", "restarted"), ("nodes", "remade")} <= drawn[Profile.ENDPOINTSLICE_CONTROLLER]
    assert not {"components", "nodes", "connections"} & {axis for axis, _ in drawn[Profile.API_SERVER]}


@pytest.mark.parametrize("claims", [["IPv6"], ["IPv6", "IPv6NodePorts"]])
def test_node_ports_get_the_second_family_only_if_it_is_claimed_for_them(claims: list[str]) -> None:
    settings = resolve({"backend": "netns", "proxy": "kube-proxy", "supported-features": claims}, environment={})
    known = catalogue()
    found = draws_of(known, settings)
    at_node_ports = [each.id for each in known if "NodePort" in {feature.name for feature in each.features}]
    families = {parse_draw(found[each])["family"] for each in at_node_ports}
    assert families == ({"first", "second"} if "IPv6NodePorts" in claims else {"first"})
    assert "family=second" in " ".join(found.values())


def test_sentences_about_connections_keep_tcp() -> None:
    known = [each for each in catalogue() if "connection" in each.sentence]
    found = draws_of(known, resolve({"backend": "netns", "draw": "protocol=udp,nodes=remade"}, environment={}))
    assert known
    assert "udp" not in {parse_draw(text)["protocol"] for text in found.values()}


def test_single_value_is_fixed() -> None:
    known = [each for each in catalogue() if "client=endpoint" in each.fixed]
    assert known
    for draw, wanted in (("client=endpoint", "pod"), ("client=node", "node")):
        found = draws_of(known, resolve({"backend": "netns", "draw": draw}, environment={}))
        assert {parse_draw(text)["client"] for text in found.values()} == {wanted}
    found = draws_of(catalogue(), resolve({"backend": "netns"}, environment={}))
    assert "endpoint" not in {parse_draw(found[each.id])["client"] for each in known}


@pytest.mark.parametrize(("feature", "value"), [("IPv6", ("family", "second")), ("UDP", ("protocol", "udp"))])
def test_values_of_unclaimed_features_are_never_drawn(feature: str, value: tuple[str, str]) -> None:
    known = catalogue()
    for exempt in ([], [feature]):
        settings = resolve({"backend": "netns", "exempt-features": exempt}, environment={})
        drawn = {each for text in draws_of(known, settings).values() for each in parse_draw(text).values}
        assert (value in drawn) is not bool(exempt)


def test_expensive_values_are_rare_but_cover_all_pairs() -> None:
    found = draws(subjects(300), 1)
    for axis, value in SHARES:
        number = sum(draw[axis] == value for draw in found.values())
        assert 5 < number < 300 / len(ALL[axis])


def test_further_addresses_are_drawn_only_for_proxies_known_to_ignore_them(tmp_path: Path) -> None:
    recipe = tmp_path / "recipe.yaml"
    recipe.write_text("{name: other, command: [other], ready: [{log: up}]}")
    mine = [each for each in catalogue() if each.profile == Profile.SERVICE_PROXY]
    chosen = {"reference": {}, "kube-proxy": {"proxy": "kube-proxy"}, "recipe": {"proxy": str(recipe)}}
    chosen["installed"] = {"backend": "kubeconfig"}
    found = {name: draws_of(mine, resolve(values, environment={})).values() for name, values in chosen.items()}
    having = {name for name, texts in found.items() if any("addresses=several" in each for each in texts)}
    assert having == {"reference", "kube-proxy"}
