"""Print the last final release of Kubernetes and the newest pre-release after it, as outputs of a GitHub step.

Reads the table of `trafficdist components list COMPONENT... --available`. A release counts if all components have it.
Without a pre-release after the last final release, `next` is empty.
"""

from __future__ import annotations

import sys
from collections.abc import Iterable

from harness.binaries.versions import Version, parse_version


def choose(table: Iterable[str]) -> tuple[Version, Version | None]:
    """Return the final release and the pre-release. Raises `SystemExit` if the components share no final release."""
    listed: dict[str, set[Version]] = {}
    for line in table:
        component, *cells = line.split() or [""]
        if versions := set(filter(None, map(parse_version, cells))):
            listed.setdefault(component, set()).update(versions)
    common = set.intersection(*listed.values()) if listed else set()
    final = max((version for version in common if not version.pre), default=None)
    if final is None:
        raise SystemExit(f"::error::No final release is listed for all of {', '.join(listed) or 'none'}.")
    return final, max((version for version in common if version.pre and version > final), default=None)


if __name__ == "__main__":
    final, newest = choose(sys.stdin)
    print(f"final={final}\nnext={newest or ''}")  # noqa: T201
