"""The abilities and nodes that each requirement needs from a cluster."""

import functools
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path

from harness.errors import UsageError

FILE = "needs.yaml"


@dataclass(frozen=True, slots=True)
class Needs:
    """Abilities (`harness.model.abilities`) and node names that a requirement needs or a cluster has."""

    abilities: frozenset[str] = frozenset()
    nodes: frozenset[str] = frozenset()

    def __or__(self, other: "Needs") -> "Needs":
        return Needs(self.abilities | other.abilities, self.nodes | other.nodes)

    def to_json(self) -> dict[str, list[str]]:
        both = {"abilities": sorted(self.abilities), "nodes": sorted(self.nodes)}
        return {name: values for name, values in both.items() if values}

    @classmethod
    def from_json(cls, values: Mapping[str, Iterable[str]]) -> "Needs":
        return cls(frozenset(values.get("abilities") or ()), frozenset(values.get("nodes") or ()))


def read(place: Path) -> dict[str, Needs]:
    """Return the needs of each requirement from the file in a folder, or {} if there is none. Raises `UsageError`."""
    from harness.model import strict_yaml  # noqa: PLC0415  the plugin loads this module in every pytest run

    file = place / FILE
    if not file.exists():
        return {}
    loaded = strict_yaml.read(file, what="table of needs") or {}
    try:
        return {name: Needs.from_json(values) for name, values in loaded.items()}
    except (AttributeError, TypeError) as error:
        raise UsageError(f"{file}: is not a valid table of needs: {' '.join(str(error).split())}") from None


@functools.cache
def table_for(folder: Path) -> dict[str, Needs]:
    """Return the needs from the file `FILE` in this folder or the nearest folder above. Raises `UsageError`."""
    if (folder / FILE).exists() or folder == folder.parent:
        return read(folder)
    return table_for(folder.parent)


def as_yaml(needs: Mapping[str, Needs]) -> str:
    import yaml  # noqa: PLC0415  as above

    table = {name: needs[name].to_json() for name in sorted(needs)}
    return yaml.safe_dump(table, default_flow_style=None, width=10_000, sort_keys=True)
