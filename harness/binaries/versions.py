"""Parses component versions: "1.34.10", "1.34" for its latest patch, or "newest" or "latest"."""

import re
from collections.abc import Iterable
from dataclasses import dataclass
from functools import total_ordering

from harness.errors import UsageError

NEWEST = "newest"
_VERSION = re.compile(r"v?(\d+)\.(\d+)\.(\d+)(?:-([0-9A-Za-z.-]+))?")
_MINOR = re.compile(r"v?(\d+)\.(\d+)")


@total_ordering
@dataclass(frozen=True, slots=True)
class Version:
    """A full version, ordered as in Semantic Versioning. `pre` is "rc.1" for 1.35.0-rc.1."""

    major: int
    minor: int
    patch: int
    pre: str = ""

    def __str__(self) -> str:
        return f"{self.major}.{self.minor}.{self.patch}" + (f"-{self.pre}" if self.pre else "")

    @property
    def tag(self) -> str:
        return f"v{self}"

    @property
    def series(self) -> str:
        return f"{self.major}.{self.minor}"

    def __lt__(self, other: "Version") -> bool:
        return self._key() < other._key()

    def _key(self) -> tuple[int, int, int, bool, list[tuple[bool, int, str]]]:
        parts = [(not part.isdigit(), int(part) if part.isdigit() else 0, part) for part in self.pre.split(".")]
        return self.major, self.minor, self.patch, not self.pre, parts


@dataclass(frozen=True, slots=True)
class VersionSpec:
    text: str
    exact: Version | None = None
    series: str = ""

    def __str__(self) -> str:
        return self.text

    def allows(self, version: Version) -> bool:
        """Return whether a version matches the request. Pre-releases match only exact requests."""
        if self.exact is not None:
            return version == self.exact
        return not version.pre and self.series in ("", version.series)

    def choose(self, versions: Iterable[Version]) -> list[Version]:
        return sorted(filter(self.allows, versions), reverse=True)


def parse_version(text: str) -> Version | None:
    found = _VERSION.fullmatch(text)
    return Version(int(found[1]), int(found[2]), int(found[3]), found[4] or "") if found else None


def parse_wanted(text: str) -> VersionSpec:
    """Parse a requested version. "" means the latest. Raises `UsageError`."""
    if text in ("", NEWEST, "latest"):
        return VersionSpec(NEWEST)
    version = parse_version(text)
    if version is not None:
        return VersionSpec(str(version), exact=version)
    minor = _MINOR.fullmatch(text)
    if minor is None:
        raise UsageError(f"version {text!r}: expected one like 1.34.2, 1.34 for its latest patch, or {NEWEST}")
    series = f"{int(minor[1])}.{int(minor[2])}"
    return VersionSpec(series, series=series)
