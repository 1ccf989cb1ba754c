"""Plan a run at collection: decide which requirements run, and the reason for each requirement that does not run.

Reports list requirements that do not run, with a reason (`SkipReason`), but only count those that options exclude.
"""

import fnmatch
from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from harness.errors import NothingSelectedError, UsageError
from harness.judging.results import Case
from harness.judging.verdict import SkipReason
from harness.model.needs import Needs
from harness.model.release_features import minor_of
from harness.model.requirements import Feature, Level, Profile, Requirement
from harness.run import suite_files
from harness.run.quick_selection import QuickSelection
from harness.run.sharding import other_shard
from harness.settings.claims import REFERENCE
from harness.settings.parsing import unknown_name
from harness.settings.settings import Settings
from harness.variation.axes import DrawnValues, parse_draw

BY_PYTEST = "by pytest's own options"  # the message for a case that -k, -m or --deselect excluded


@dataclass(slots=True)
class Plan:
    """All collected requirements by id, and all cases in their order of execution."""

    requirements: dict[str, Requirement] = field(default_factory=dict)
    cases: list[Case] = field(default_factory=list)
    error: str = ""
    quick: QuickSelection | None = None
    seconds: dict[str, float] = field(default_factory=dict)  # the expected duration of each requirement
    draws: dict[str, str] = field(default_factory=dict)
    """The draw (random values) of each requirement, as a string that `parse_draw` reads."""
    shards: dict[str, str] = field(default_factory=dict)  # of each requirement to run, if the run is one of several

    def draw_of(self, requirement_id: str) -> DrawnValues:
        """Return the draw of a requirement. A requirement without a draw gets the first value of each axis."""
        return parse_draw(self.draws.get(requirement_id, "plain"))

    def cases_of(self, requirement_id: str) -> list[Case]:
        return [case for case in self.cases if case.requirement == requirement_id]

    def features(self) -> list[Feature]:
        found = {feature.name: feature for each in self.requirements.values() for feature in each.named}
        return [found[name] for name in sorted(found)]

    @classmethod
    def from_json(cls, values: Mapping[str, Any]) -> "Plan":
        requirements = {name: _requirement(each) for name, each in values["requirements"].items()}
        quick = QuickSelection(**values["quick"]) if values["quick"] else None
        cases = [Case(**case) for case in values["cases"]]
        return cls(**{**values, "requirements": requirements, "cases": cases, "quick": quick})


def _requirement(values: Mapping[str, Any]) -> Requirement:
    lists = {name: tuple(values[name]) for name in ("kills", "fixed", "answers")}
    features = tuple(map(_feature, values["features"]))
    must_if = _feature(values["must_if"]) if values["must_if"] else None
    return Requirement(**{**values, **lists, "level": Level(values["level"]), "features": features, "must_if": must_if})


def _feature(values: Mapping[str, Any]) -> Feature:
    return Feature(**{**values, "profile": Profile(values["profile"])})


def claimed(feature: Feature, settings: Settings) -> bool:
    """Return whether the implementation claims a feature. It claims all core features that no option exempts."""
    if feature.name in settings.exempt_features:
        return False
    return feature.core or settings.claims_everything or feature.name in settings.supported_features


def reason_to_skip(requirement: Requirement, settings: Settings) -> tuple[str, str]:
    """Return the reason why a requirement does not run, with details, or two empty strings if it runs."""
    if deselected := _what_deselects(requirement, settings):
        return SkipReason.DESELECTED, deselected
    unclaimed = _what_is_not_claimed(requirement, settings)
    return (SkipReason.UNSUPPORTED, unclaimed) if unclaimed else ("", "")


def _what_deselects(requirement: Requirement, settings: Settings) -> str:
    if not _in_profile(requirement, settings):
        return not_selected(requirement.profile)
    if settings.run_test and not matches(requirement.id, settings.run_test):
        return "not named by --run-test"
    return "named by --skip-tests" if matches(requirement.id, settings.skip_tests) else ""


def not_selected(profile: Profile) -> str:
    return f"profile {profile} is not selected"


def _in_profile(requirement: Requirement, settings: Settings) -> bool:
    return not settings.profile or requirement.profile in settings.profile


def _what_is_not_claimed(requirement: Requirement, settings: Settings) -> str:
    unclaimed = [feature.name for feature in requirement.features if not claimed(feature, settings)]
    if unclaimed:
        return ", ".join(unclaimed)
    if requirement.unless in settings.supported_features:
        return f"excluded by {requirement.unless}, which is declared"
    if requirement.since and settings.reference_minor < minor_of(requirement.since):
        return f"holds since Kubernetes {requirement.since}"
    return _other_reading(requirement, settings.follow)


def what_is_lacking(needed: Needs, offered: Needs) -> tuple[str, str]:
    """Return the reason and details, like `reason_to_skip`, if a cluster cannot run a requirement with these needs."""
    if abilities := needed.abilities - offered.abilities:
        return SkipReason.UNAVAILABLE, f"the cluster does not offer {', '.join(sorted(abilities))}"
    if nodes := needed.nodes - offered.nodes:
        return SkipReason.INELIGIBLE, f"no node of the cluster can be {', '.join(sorted(nodes))}"
    return "", ""


def what_cannot_show(requirement: Requirement, lacking: Mapping[str, str]) -> tuple[str, str]:
    """Return the reason and details, like `reason_to_skip`, if a requirement's features cannot be observed."""
    found = {lacking[each.name]: each.name for each in requirement.features if each.name in lacking}
    details = [f"{name} cannot be observed on this cluster ({why})" for why, name in sorted(found.items())]
    return (SkipReason.UNAVAILABLE, "; ".join(details)) if details else ("", "")


def _other_reading(requirement: Requirement, follow: str) -> str:
    """Return why a requirement does not apply to an implementation with this value of --follow, or "" if it applies."""
    if requirement.as_ in ("", follow):
        return ""
    if requirement.as_ == "kep":
        return "follows released Kubernetes, not the text of the KEP"
    return "follows the text of the KEP" + (f": see {requirement.instead_of}" if requirement.instead_of else "")


def select(
    requirements: Iterable[Requirement],
    patterns: Sequence[str] = (),
    *,
    levels: Sequence[str] = (),
    features: Sequence[str] = (),
    profiles: Sequence[str] = (),
) -> list[Requirement]:
    """Return the requirements that match all filters. Raises `UsageError` or `NothingSelectedError`."""
    known = list(requirements)
    check_ids(patterns, [each.id for each in known])
    _check_features(features, _features_of(known))
    found = [
        each
        for each in known
        if (not patterns or matches(each.id, patterns))
        and (not levels or each.level in levels)
        and (not profiles or each.profile in profiles)
        and (not features or any(feature.name in features for feature in each.features))
    ]
    if not found:
        raise NothingSelectedError("no requirement satisfies all patterns and options")
    return found


def check_names(settings: Settings, requirements: Iterable[Requirement]) -> None:
    """Raise a `UsageError` that suggests similar names if a requirement id or feature is unknown."""
    known = list(requirements)
    check_selection(settings, [each.id for each in known])
    _check_claims(settings, _features_of(known))


def check_selection(settings: Settings, ids: Sequence[str]) -> None:
    """Raise `UsageError` for an unknown requirement id. The message omits --run-test: ids may be arguments."""
    check_ids(settings.run_test, ids)
    check_ids(settings.skip_tests, ids, "--skip-tests: ")


def check_claims(settings: Settings) -> None:
    """Raise `UsageError` for a claimed feature that the published suite does not define."""
    if settings.supported_features or settings.exempt_features:
        _check_claims(settings, ())


def _check_claims(settings: Settings, features: Collection[str]) -> None:
    recipe = settings.proxy.file or settings.components.file or (settings.dns if settings.dns != REFERENCE else "")
    for option in ("supported_features", "exempt_features"):
        where = f"{recipe}: " if recipe and option not in settings.given else ""
        _check_features(getattr(settings, option), features, f"{where}{option.replace('_', '-')}: ")


def check_ids(patterns: Sequence[str], ids: Sequence[str], option: str = "") -> None:
    for pattern in patterns:
        if not fnmatch.filter(ids, pattern):
            documents = sorted({each.partition("/")[0] for each in ids})
            document = next((each for each in documents if each.lower() == pattern.lower().rstrip("/")), "")
            similar = f"unknown requirement {pattern!r}; did you mean {document}/*?"
            message = similar if document else unknown_name(pattern, ids, "requirement")
            where = "`trafficdist list` shows all of them" if ids else "no requirement was collected at all"
            raise UsageError(f"{option}{message} ({where})")


def _features_of(known: Iterable[Requirement]) -> set[str]:
    return {feature.name for each in known for feature in each.named}


def _check_features(names: Sequence[str], features: Collection[str], option: str = "") -> None:
    features = set(features)
    if not features.issuperset(names):  # a recipe may claim features of the published suite when another suite runs
        features.update(suite_files.features())
    for name in names:
        if name not in features:
            raise UsageError(f"{option}{unknown_name(name, sorted(features), 'feature')}")


EXEMPTED = "core features were exempted"
"""The beginning of the message that a run with exempted core features cannot be certified."""


def not_certifiable(settings: Settings, plan: Plan, *, whole_suite: bool, retries: int = 0) -> list[str]:
    exempt = [each.name for each in plan.features() if each.core and each.name in settings.exempt_features]
    not_given = [name for name in ("organization", "project", "version") if not getattr(settings, name)]
    by_hand = any(
        case.reason == SkipReason.DESELECTED
        and not other_shard(case.thing)
        and _in_profile(plan.requirements[case.requirement], settings)
        for case in plan.cases
    )
    chosen = settings.run_test or settings.skip_tests or settings.generation or settings.quick
    reasons = (
        (bool(settings.mutant), f"mutant {settings.mutant} was judged"),
        (not whole_suite, "not all of the suite was collected"),
        (bool(settings.run_test), "--run-test chose requirements"),
        (settings.quick, f"--quick chose {plan.quick or 'requirements'}"),
        (settings.generation is not None, "--generate or --replay chose scenarios"),
        (bool(settings.skip_tests), "--skip-tests excluded requirements"),
        (by_hand and not chosen, "requirements were deselected"),
        (bool(exempt), f"{EXEMPTED}: {', '.join(exempt)}"),
        (bool(settings.shard), f"this is only shard {settings.shard}: `trafficdist merge` makes one report of all"),
        (retries > 0, f"{retries} tests were repeated"),
        (
            bool(not_given) and not settings.judges_reference,
            f"the implementation is not identified: missing --{', --'.join(not_given)}",
        ),
    )
    return [text for holds, text in reasons if holds]


def duplicates(ids: Sequence[tuple[str, str]]) -> list[str]:
    """Return the requirement ids that several tests have. `ids` are pairs: id, test name without parameters."""
    count = Counter(requirement_id for requirement_id, _ in set(ids))
    return sorted(requirement_id for requirement_id, number in count.items() if number > 1)


def matches(requirement_id: str, patterns: Sequence[str]) -> bool:
    return any(fnmatch.fnmatchcase(requirement_id, pattern) for pattern in patterns)
