"""Compute which requirements cannot be judged because of the findings, for each profile. This module has no effects."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass

from harness.checks.check import Finding
from harness.model.needs import Needs
from harness.model.requirements import Profile, Requirement


@dataclass(frozen=True, slots=True)
class Cost:
    """The requirements of a profile that cannot be judged."""

    profile: Profile
    lost: tuple[str, ...]
    of: int

    def sentence(self, *, named: int | None = 3) -> str:
        """Return the cost as a sentence with the first `named` ids, or with all ids if `named` is None."""
        shown = self.lost if named is None else self.lost[:named]
        more = f" and {len(self.lost) - len(shown)} more" if len(shown) < len(self.lost) else ""
        verb = "is" if len(self.lost) == 1 else "are"
        ids = f": {', '.join(shown)}{more}" if shown else ""
        return f"{len(self.lost)} of {self.of} requirements of {self.profile} {verb} not judged{ids}"


def costs(
    findings: Iterable[Finding],
    needs: Mapping[str, Needs],
    requirements: Sequence[Requirement],
    profiles: Collection[Profile],
) -> list[Cost]:
    """Return the combined cost of the findings by profile. Profiles without any loss are omitted."""
    lacks = list(findings)
    found = []
    for profile in sorted(profiles):
        mine = sorted((each for each in requirements if each.profile == profile), key=lambda each: each.id)
        lost = tuple(each.id for each in mine if any(_takes(lack, each, needs) for lack in lacks))
        if lost:
            found.append(Cost(profile, lost, len(mine)))
    return found


def _takes(finding: Finding, requirement: Requirement, needs: Mapping[str, Needs]) -> bool:
    needed = needs.get(requirement.id, Needs())
    return bool(
        needed.abilities & finding.lacks.abilities
        or needed.nodes & finding.lacks.nodes
        or finding.features & {feature.name for feature in requirement.features}
    )
