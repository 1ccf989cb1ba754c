"""Divide the requirements of a run into shards, which run on different machines.

Each requirement belongs to exactly one shard. All machines divide a selection in the same way, because they weigh each
requirement by its expected duration, which depends only on the suite (see `harness.run.durations`).
"""

from collections.abc import Mapping

from harness.errors import UsageError

ELSEWHERE = "in shard "
"""The beginning of the reason why a requirement does not run in this shard. The name of its own shard follows."""


def divide(seconds: Mapping[str, float], shard: str) -> dict[str, str]:
    """Return the shard of each requirement, such as "2/5". `seconds` has the expected duration of each requirement.

    The longest requirements come first, and each goes to the shard with the shortest total so far. Raises
    `UsageError` if there are more shards than requirements.
    """
    count = int(shard.partition("/")[2])
    if 0 < len(seconds) < count:
        raise UsageError(f"--shard {shard}: only {len(seconds)} requirements are selected: use at most as many shards")
    loads, found = [0] * count, dict[str, str]()
    for each in sorted(seconds, key=lambda each: (-seconds[each], each)):
        number = loads.index(min(loads))
        loads[number] += max(1, round(seconds[each] * 100))  # whole numbers, so that no sum is rounded
        found[each] = f"{number + 1}/{count}"
    return found


def other_shard(message: str) -> str:
    """Return the shard in the reason why a requirement does not run, or "" for another reason."""
    return message.removeprefix(ELSEWHERE) if message.startswith(ELSEWHERE) else ""
