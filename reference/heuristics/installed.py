"""Finds the heuristics in installed packages when a Service first requests a heuristic, because the search is slow."""

from collections.abc import Iterator, Mapping
from functools import cache
from importlib.metadata import EntryPoint, entry_points

from reference.heuristics.heuristic import Heuristic, HeuristicError

GROUP = "trafficdist.heuristics"


class _Installed(Mapping[str, Heuristic]):
    """Heuristics by value of `trafficDistribution`. A lookup raises `HeuristicError` if loading fails."""

    def __init__(self) -> None:
        self._loaded: dict[str, Heuristic] = {}

    def __getitem__(self, value: str) -> Heuristic:
        if value not in self._loaded:
            self._loaded[value] = _load(_found()[value])
        return self._loaded[value]

    def __contains__(self, value: object) -> bool:
        return value in _found()

    def __iter__(self) -> Iterator[str]:
        return iter(_found())

    def __len__(self) -> int:
        return len(_found())


def installed_heuristics() -> Mapping[str, Heuristic]:
    """Return all installed heuristics. Packages that are installed after the first lookup are not found."""
    return _Installed()


@cache
def _found() -> Mapping[str, EntryPoint]:
    return {each.name: each for each in entry_points(group=GROUP)}


def _load(entry: EntryPoint) -> Heuristic:
    try:
        heuristic: Heuristic = entry.load()()
    except Exception as error:
        raise HeuristicError(f"heuristic {entry.name} ({entry.value}) cannot be loaded: {error!r}") from error
    return heuristic
