"""Regenerate the file of fixed scenarios after a change to the values that scenarios can have.

python -m conformance.generated corpus 1 12     # from seed 1, at most 12 for each requirement
"""

from __future__ import annotations

import functools
import itertools
import sys
from collections.abc import Hashable, Iterator

from conformance.generated import strategies, yaml_format
from conformance.generated.lifecycles import Lifecycle, Slice, State, outcome, switches, told
from conformance.generated.runner import CORPUS

GROUPS = (("core", False), ("core", True), ("all", False), ("all", True))
_BATCHES = 4  # number of generated batches from which the scenarios of a group are chosen
_HEAD = "# Scenarios from seed {}, {} per requirement; written by `python -m conformance.generated corpus {} {}`.\n"


@functools.cache  # generating the scenarios takes seconds
def corpus_text(seed: int, count: int) -> str:
    """Return the content of the file of fixed scenarios."""
    lifecycles = [lifecycle for group in GROUPS for lifecycle in _chosen(group, seed, count)]
    return _HEAD.format(seed, count, seed, count) + yaml_format.as_yaml(lifecycles)


def _chosen(group: tuple[str, bool], seed: int, count: int) -> Iterator[Lifecycle]:
    """Yield scenarios of a group. Each scenario adds as much new behaviour (see `shown`) as possible."""
    drawn = [strategies.batch(group, number, of_seed=seed) for number in range(_BATCHES)]
    zones = [
        {each for lifecycle in lifecycles for state in lifecycle.states for each in state.zones} for lifecycles in drawn
    ]
    moving = next((number for number, each in enumerate(zones) if each), 0)  # a batch in which a node changes its zone
    of = {
        lifecycle: frozenset(shown(lifecycle))
        for number, lifecycles in enumerate(drawn)
        for lifecycle in lifecycles
        if number == moving or not zones[number]
    }
    seen: set[Hashable] = set()
    for _ in range(count):
        best = max(of, key=lambda lifecycle: len(of[lifecycle] - seen))
        seen |= of.pop(best)
        yield best


def shown(lifecycle: Lifecycle) -> Iterator[Hashable]:
    """Yield the rules that select endpoints in a scenario, and each visible change that is alone in its step."""
    for state, node in itertools.product(lifecycle.states, lifecycle.nodes):
        found = outcome(lifecycle, state, node)
        by = getattr(found, "by", found)
        yield from (
            (by, lifecycle.address, lifecycle.client),
            (by, lifecycle.protocol, lifecycle.family),
            (by, state.affinity, state.dual),
        )
    for before, after in itertools.pairwise(lifecycle.states):
        changed = {*_changed(before, after)}
        if len(changed) == 1 and any(
            told(lifecycle, before, node) != told(lifecycle, after, node) for node in lifecycle.nodes
        ):
            (what,) = changed
            yield from (
                (what,),
                (what, lifecycle.protocol),
                (what, lifecycle.address),
                (what, lifecycle.client),
                (what, lifecycle.family),
            )


def _changed(before: State, after: State) -> Iterator[Hashable]:
    for name in (*switches(), "zones"):
        if getattr(before, name) != getattr(after, name):
            yield name, getattr(after, name)
    was, now = ({(each.name, each.of): each for each in state.slices} for state in (before, after))
    for key in was.keys() | now.keys():
        yield from _differences(was.get(key, Slice(key[0])), now.get(key, Slice(key[0])), gone=key not in now)


def _differences(was: Slice, now: Slice, *, gone: bool) -> Iterator[Hashable]:
    old, new = ({member.server: member for member in each.members} for each in (was, now))
    if old and not new:
        yield "slice", "deleted" if gone else "emptied"
        return
    yield from (("endpoint", "gone") for _ in old.keys() - new.keys())
    yield from (("endpoint", "comes") for _ in new.keys() - old.keys())
    for server in old.keys() & new.keys():
        one, other = old[server], new[server]
        if one.condition != other.condition:
            yield "condition", one.condition, other.condition
        if (one.zones, one.nodes) != (other.zones, other.nodes):
            yield "hints", bool(one.zones), bool(other.zones), bool(one.nodes), bool(other.nodes)


def main(words: list[str]) -> int:
    if len(words) != 3 or words[0] != "corpus" or not all(each.isdecimal() for each in words[1:]):
        sys.stderr.write("error: expected arguments: corpus SEED COUNT\n")
        return 4
    CORPUS.write_text(corpus_text(int(words[1]), int(words[2])), encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
