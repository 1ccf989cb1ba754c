"""The cost of a lack: the requirements that are not judged, by profile. Pure."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass

from harness.doctor.check import Check
from harness.model.needs import Needs
from harness.model.requirements import Profile, Requirement


@dataclass(frozen=True, slots=True)
class Cost:
    """The requirements of a profile that are not judged."""

    profile: Profile
    lost: tuple[str, ...]
    of: int

    def sentence(self, *, named: int | None = 3) -> str:
        """Return the cost as a sentence, with the first `named` ids, or with all for None."""
        shown = self.lost if named is None else self.lost[:named]
        more = f" and {len(self.lost) - len(shown)} more" if len(shown) < len(self.lost) else ""
        verb = "is" if len(self.lost) == 1 else "are"
        ids = f": {', '.join(shown)}{more}" if shown else ""
        return f"{len(self.lost)} of {self.of} requirements of {self.profile} {verb} not judged{ids}"


def costs(
    checks: Iterable[Check],
    needs: Mapping[str, Needs],
    requirements: Sequence[Requirement],
    profiles: Collection[Profile],
) -> list[Cost]:
    """Return what these lacks cost together, profile by profile; profiles that lose nothing are left out."""
    lacks = list(checks)
    found = []
    for profile in sorted(profiles):
        mine = sorted((each for each in requirements if each.profile == profile), key=lambda each: each.id)
        lost = tuple(each.id for each in mine if any(_takes(lack, each, needs) for lack in lacks))
        if lost:
            found.append(Cost(profile, lost, len(mine)))
    return found


def _takes(check: Check, requirement: Requirement, needs: Mapping[str, Needs]) -> bool:
    needed = needs.get(requirement.id, Needs())
    return bool(
        needed.abilities & check.lacks.abilities
        or needed.nodes & check.lacks.nodes
        or check.features & {feature.name for feature in requirement.features}
    )
