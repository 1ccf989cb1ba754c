"""Write cells of the grid and live changes as a separate suite, with one test for each.

python -m conformance.interactions                     # print all names with their descriptions
python -m conformance.interactions cell-7 change-106 > alone/test_alone.py
trafficdist run --suite alone
python -m conformance.interactions choose              # choose the changes again after an edit of a dimension
"""

from __future__ import annotations

import sys
from collections.abc import Mapping

from conformance.interactions import cells, change_covering, covering
from conformance.interactions.cell_source import as_text as text_of_cell
from conformance.interactions.change_source import as_text as text_of_change

_HEAD = '''\
"""Parts of the grid, each alone."""

from dataclasses import replace

from conformance.features import CLUSTER_IP
from trafficdist import (
    MUST,
    NO_ANSWER,
    Port,
    endpoint,
    expect_affinity,
    expect_traffic,
    external_client,
    node_client,
    pod_client,
    requirement,
    set_addresses,
)
'''

_PART = """

@requirement({!r}, {!r}, level=MUST, features={{CLUSTER_IP}}, source="docs/feature-grid.md")
{}"""


def named() -> Mapping[str, tuple[str, str]]:
    """Return the description and the scenario's source of each cell and each live change, by name."""
    grid = {f"cell-{number}": cell for number, cell in enumerate(covering.cells())}
    live = {change_covering.name_of(change): change for change in change_covering.of_all()}
    return {name: (cells.name_of(each), text_of_cell(each, name)) for name, each in grid.items()} | {
        name: (each.text, text_of_change(each, name)) for name, each in live.items()
    }


def main(names: list[str]) -> int:
    """Print all names, write a suite module with the named cells and changes, or choose the changes again."""
    if names == ["choose"]:
        change_covering.CHOSEN.write_text(change_covering.as_json(change_covering.chosen()), encoding="utf-8")
        return 0
    parts = named()
    if unknown := [each for each in names if each not in parts]:
        sys.stderr.write(f"error: no cell or change is called {', '.join(unknown)}; without names, all are printed\n")
        return 4
    if names:
        sys.stdout.write(_HEAD + "".join(_PART.format(f"GRID/{name}", *parts[name]) for name in names))
    else:
        sys.stdout.writelines(f"{name}  {what}\n" for name, (what, _) in parts.items())
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
