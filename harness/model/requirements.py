"""Requirements, which are sentences that must be true of an implementation, and the decorator for their tests."""

import enum
import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace
from types import MappingProxyType
from typing import Any

from harness.errors import UsageError

_ID = re.compile(r"[A-Z]+(-\d+)?/[a-z0-9]+(-[a-z0-9]+)*")
_ASIDE = re.compile(r" \((?!\d{4}\))[^()]*\)")  # a remark in brackets; a year is part of a document's name


class Level(enum.StrEnum):
    MUST = "MUST"
    SHOULD = "SHOULD"
    MAY = "MAY"


MUST, SHOULD, MAY = Level.MUST, Level.SHOULD, Level.MAY


class Profile(enum.StrEnum):
    SERVICE_PROXY = "service-proxy"
    ENDPOINTSLICE_CONTROLLER = "endpointslice-controller"
    API_SERVER = "api-server"
    CLUSTER = "cluster"  # the whole cluster, with components of one or several releases
    DNS = "dns"


@dataclass(frozen=True, slots=True)
class Feature:
    """A feature that implementations of a profile can support. Core features are mandatory."""

    name: str
    profile: Profile
    core: bool
    description: str


@dataclass(frozen=True, slots=True)
class Requirement:
    id: str
    sentence: str
    level: Level
    features: tuple[Feature, ...]
    source: str
    as_: str = ""
    instead_of: str = ""
    kills: tuple[str, ...] = ()
    unless: str = ""
    since: str = ""
    last: bool = False
    fixed: tuple[str, ...] = ()
    answers: tuple[str, ...] = ()
    must_if: Feature | None = None

    @property
    def named(self) -> tuple[Feature, ...]:
        return self.features if self.must_if is None else (*self.features, self.must_if)

    def bound(self, claims: Callable[[Feature], bool]) -> "Requirement":
        """Return the requirement with its level for an implementation with these claims."""
        return self if self.must_if is None or not claims(self.must_if) else replace(self, level=MUST)

    @property
    def document(self) -> str:
        return self.id.partition("/")[0]

    @property
    def slug(self) -> str:
        return self.id.partition("/")[2]

    @property
    def section(self) -> str:
        """Return the section in `source`. It includes the document's name, unless the id begins with this name."""
        heading = re.split("[;:]", _ASIDE.sub("", self.source), maxsplit=1)[0]
        return heading.removeprefix(f"{self.document}, ")

    @property
    def profile(self) -> Profile:
        return self.features[0].profile

    @property
    def core(self) -> bool:
        return all(feature.core for feature in self.features)


def requirement(
    id: str,  # noqa: A002  the name of the field
    sentence: str,
    *,
    level: Level,
    features: Iterable[Feature],
    source: str,
    as_: str = "",
    instead_of: str = "",
    unless: Feature | None = None,
    since: str = "",
    kills: Iterable[str] = (),
    last: bool = False,
    fixes: Mapping[str, str] = MappingProxyType({}),
    answers: Iterable[str] = (),
    must_if: Feature | None = None,
) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """Mark a test as the test of a requirement.

    - `source`: document and section ("KEP-3015, Addition of PreferSameNode").
    - `as_`: "kep" if only a KEP text requires it, "released" if only released Kubernetes does, or "". A run with the
      other value of --follow does not judge it.
    - `instead_of`: for `as_="released"`, the id of the contradicting requirement from the KEP text.
    - `kills`: mutants (implementations with one fault) that the test must detect.
    - `unless`: an extended feature; implementations that claim it are exempt.
    - `since`: the first Kubernetes release that satisfies it, if there is no feature gate. Components that are
      configured to behave like an older release are exempt.
    - `fixes`: the axes of variation that must not vary in its test, and values that the test excludes
      ("client=endpoint"), each with the reason.
    - `answers`: the basic checks that its test covers, such as "TCP node-port" (see `harness.plugin.basic_checks`).
      Requirements that depend on a failed basic check are inconclusive, and refer to this requirement.
    - `must_if`: an extended feature that the KEPs leave open. For implementations that claim it, the SHOULD is a MUST.
    - `last`: judge it after all other requirements, because it also depends on observations in other tests.
    """
    import pytest  # noqa: PLC0415  commands that need only levels and profiles do not load it

    ordered = tuple(sorted(set(features), key=lambda feature: feature.name))
    if not _ID.fullmatch(id):
        raise UsageError(f"requirement id {id!r}: expected a document and a slug, like KEP-3015/node-then-zone")
    if not ordered or len({feature.profile for feature in ordered}) != 1:
        raise UsageError(f"requirement {id}: expected at least one feature, all of one profile")
    if as_ not in ("", "kep", "released"):
        raise UsageError(f"requirement {id}: as_ is {as_!r}; expected 'kep', 'released' or an empty string")
    if since and not re.fullmatch(r"1\.\d+", since):
        raise UsageError(f"requirement {id}: since is {since!r}; expected a release like 1.33")
    if must_if is not None and (level is not SHOULD or must_if.core):
        raise UsageError(f"requirement {id}: must_if requires a SHOULD and an extended feature")
    if instead_of and as_ != "released":
        raise UsageError(f"requirement {id}: instead_of requires as_='released'")
    others: dict[str, Any] = {"unless": unless.name if unless else "", "since": since, "last": last, "must_if": must_if}
    others |= {"kills": tuple(sorted(kills)), "fixed": tuple(sorted(fixes)), "answers": tuple(sorted(answers))}
    return pytest.mark.requirement(Requirement(id, sentence, level, ordered, source, as_, instead_of, **others))
