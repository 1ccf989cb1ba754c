"""Print the size of each package that an installation of trafficdist contains, the largest first, and the sum.

    /path/to/environment/bin/python benchmarks/install_size.py [EXTRA...]

Run it with the Python of an environment into which the wheel was installed. It downloads nothing.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from importlib import metadata
from pathlib import Path

from packaging.requirements import Requirement
from packaging.utils import canonicalize_name


def brought_by(name: str, extras: frozenset[str], seen: set[tuple[str, frozenset[str]]]) -> Iterator[str]:
    """Yield a distribution and all its installed direct and indirect dependencies."""
    if (name, extras) in seen:
        return
    seen.add((name, extras))
    yield canonicalize_name(name)
    for text in metadata.requires(name) or ():
        wanted = Requirement(text)
        if wanted.marker is None or any(wanted.marker.evaluate({"extra": extra}) for extra in {"", *extras}):
            yield from brought_by(wanted.name, frozenset(wanted.extras), seen)


def size_of(name: str) -> tuple[int, int]:
    """Return the bytes of the files of a distribution, and those of its compiled modules among them."""
    paths = [Path(each.locate()) for each in metadata.files(name) or ()]
    sizes = [(path.suffix == ".pyc", path.stat().st_size) for path in paths if path.is_file()]
    return sum(size for _, size in sizes), sum(size for compiled, size in sizes if compiled)


def main() -> None:
    sizes = {name: size_of(name) for name in brought_by("trafficdist", frozenset(sys.argv[1:]), set())}
    for name, (size, compiled) in sorted(sizes.items(), key=lambda item: -item[1][0]):
        print(f"{name:28}{size / 1e6:7.1f} MB, of which .pyc {compiled / 1e6:5.1f} MB")
    whole, compiled = (sum(each) for each in zip(*sizes.values(), strict=True))
    print(f"{'sum':28}{whole / 1e6:7.1f} MB, of which .pyc {compiled / 1e6:5.1f} MB")


if __name__ == "__main__":
    main()
