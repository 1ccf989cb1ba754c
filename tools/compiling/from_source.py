"""The source `source` for `trafficdist components`, which compiles a component from its official Go module."""

from collections.abc import Callable, Collection
from pathlib import Path

from harness.binaries.component import Binary
from harness.binaries.fetching import Made
from harness.binaries.versions import Version, Wanted
from harness.binaries.watching import Watcher
from tools.compiling import source
from tools.compiling.go import Go, find_go


class FromSource:
    """Binaries that are compiled on this machine from the official Go modules."""

    name = "source"

    def __init__(self, find: Callable[[], Go]) -> None:
        """`find` returns the go command. It is called only when the command is needed."""
        self._find = find

    def resolve(
        self, component: Binary, wanted: Wanted, watcher: Watcher, without: Collection[Version] = ()
    ) -> tuple[Version, Callable[[Path], Made]]:
        go = self._find()
        release = source.resolve(component, wanted, go, watcher, without=without)

        def make(folder: Path) -> Made:
            binary, files = source.compile_binary(component, release, go, folder, watcher)
            at = f"{component.module}@{release.version.tag}"
            return Made(binary, at, go.version, tuple(files.items()))

        return release.version, make

    def available(self, component: Binary) -> list[Version]:
        return source.available(component, self._find())


def from_source(jobs: int) -> FromSource:
    """Return the source that compiles this number of packages in parallel. 0 means one per CPU."""
    return FromSource(lambda: find_go(jobs=jobs))
