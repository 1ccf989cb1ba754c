"""Tests the selection of a quick run: the requirements that kill most mutants per second, within half a minute."""

from __future__ import annotations

from typing import Any

import pytest

from conformance.generated.runner import CORPUS
from harness.errors import UsageError
from harness.model.requirements import MUST, Feature, Profile, Requirement
from harness.run.quick_selection import BUDGET, QuickSelection, choose
from harness.settings.options import resolve

ROUTING = Feature("Routing", Profile.SERVICE_PROXY, True, "Routes.")


def settings(**options: Any) -> Any:
    return resolve({"backend": "netns", "quick": "yes", **options}, environment={})


def asked(**kills: str) -> list[Requirement]:
    """Return requirements with these names. Each letter of a value is a mutant that the requirement kills."""
    return [
        Requirement(f"KEP-1/{name}", "A.", MUST, (ROUTING,), "KEP-1", kills=tuple(letters))
        for name, letters in kills.items()
    ]


def seconds(**each: float) -> dict[str, float]:
    return {f"KEP-1/{name}": number for name, number in each.items()}


def test_requirement_that_kills_no_new_mutant_is_left_out() -> None:
    chosen = choose(asked(a="xyz", b="xy", c="w", d=""), seconds(a=3.0, b=2.5, c=1.0, d=0.1), settings())
    assert chosen.ids == ("KEP-1/a", "KEP-1/c")
    assert str(chosen) == "2 of 4 requirements, known to find 4 of 4 mutants"


def test_requirements_with_most_mutants_per_second_come_first() -> None:
    chosen = choose(asked(long="vwxyz", short="vw", other="xy"), seconds(long=26.0, short=5.0, other=5.0), settings())
    assert (chosen.ids, chosen.mutants, chosen.of_mutants) == (("KEP-1/other", "KEP-1/short"), 4, 5)


def test_too_long_requirement_is_skipped_for_the_next_one() -> None:
    chosen = choose(asked(endless="abcdefghijklmnop", short="q"), seconds(endless=31.0, short=3.0), settings())
    assert chosen.ids == ("KEP-1/short",)
    assert chosen.seconds <= BUDGET


def test_proxies_that_are_programs_have_fewer_workers_and_so_fewer_requirements() -> None:
    many = [asked(**{f"r{number:02}": chr(256 + number)})[0] for number in range(60)]
    lasting = {each.id: 2.0 for each in many}
    chosen = [choose(many, lasting, settings(**options)) for options in ({}, {"proxy": "kube-proxy"})]
    assert [len(each.ids) for each in chosen] == [42, 24]  # 21 s on four workers, 24.5 s on two


def test_the_order_of_collection_changes_nothing() -> None:
    many = [asked(**{f"r{number}": chr(256 + number // 2)})[0] for number in range(80)]
    lasting = {each.id: 2.0 for each in many}
    assert choose(many, lasting, settings()) == choose(many[::-1], lasting, settings())


def test_unknown_seconds_are_the_median() -> None:
    known = {"KEP-1/x": 30.0, "KEP-1/y": 31.0, "KEP-1/z": 32.0}
    with pytest.raises(UsageError, match="none of 1 requirements detects a mutant and ends within 30 s"):
        choose(asked(new="a"), known, settings())
    assert choose(asked(new="a"), {}, settings()).ids == ("KEP-1/new",)


def test_no_requirement_is_chosen_without_mutants() -> None:
    with pytest.raises(UsageError, match="detects a mutant"):
        choose(asked(a=""), {}, settings())


def test_no_requirement_is_chosen_from_an_empty_selection() -> None:
    assert choose([], {}, settings()) == QuickSelection((), 0, 0, 0, 0.0)


@pytest.mark.parametrize(
    ("other", "said"),
    [
        ({"run-test": "KEP-1/*"}, "--run-test: --quick selects"),
        ({"generate": "10s"}, "--generate: --quick selects"),
        ({"replay": str(CORPUS)}, "--replay: --quick selects"),
    ],
)
def test_quick_excludes_other_selection_options(other: dict[str, str], said: str) -> None:
    with pytest.raises(UsageError, match=said):
        settings(**other)


def test_quick_allows_options_that_narrow_a_run() -> None:
    assert settings(**{"profile": "dns", "skip-tests": "KEP-1/a", "mutant": "node-as-zone"}).quick
