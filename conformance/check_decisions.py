"""The command `trafficdist check-decisions`. This module imports little, so that `trafficdist --help` stays fast.

The suite does not import the reference implementation, but finds it like any other implementation, through an entry
point in the group `trafficdist.decisions`.
"""

from __future__ import annotations

import importlib
import os
import shlex
import sys
import time
from collections.abc import Callable, Iterable, Sequence
from contextlib import ExitStack
from functools import partial
from importlib.metadata import entry_points
from typing import TYPE_CHECKING, Any

import click

from conformance import oracle

if TYPE_CHECKING:
    from conformance.small_scope import Counterexample, Endpoint

GROUP = "trafficdist.decisions"

_EPILOG = """\b
Examples:
  trafficdist check-decisions
  trafficdist check-decisions --endpoints 2
  trafficdist check-decisions --decisions my_proxy.topology:decide
  trafficdist check-decisions --program 'my-proxy decide' --every-group

\b
Exit codes:
   0  every decision is right
   1  at least one decision is wrong
   4  --decisions names no function, or the function or program fails"""


@click.command("check-decisions", epilog=_EPILOG)
@click.option(
    "--decisions", "name", default="reference", show_default=True, metavar="MODULE:FUNCTION",
    help="A Python function that decides for one state, or an entry point of group trafficdist.decisions.",
)  # fmt: skip
@click.option(
    "--program", metavar="COMMAND",
    help="A program that decides as one node: it reads states as lines of JSON and writes decisions.",
)  # fmt: skip
@click.option(
    "--endpoints", "size", type=click.IntRange(0), default=3, show_default=True, metavar="N",
    help="The largest number of endpoints. With 2, the check takes a quarter of the time.",
)  # fmt: skip
@click.option(
    "--reading", type=click.Choice(["released", "kep"]), default="released", show_default=True,
    help="released: only ready endpoints need hints. kep: every endpoint needs hints.",
)  # fmt: skip
@click.option("--any-silence", is_flag=True, help="Without an endpoint, drop and reject are both right (a SHOULD).")
@click.option("--no-node-hints", is_flag=True, help="Expect no node hints: feature NodeHints is not claimed.")
@click.option(
    "--every-group", is_flag=True, help="Check all states, and show a counterexample of each rule and policy."
)
def check_decisions(
    *, name: str, program: str, size: int, reading: Any, any_silence: bool, no_node_hints: bool, every_group: bool
) -> int:
    """Compare a proxy's decisions with the KEPs in all states of up to N endpoints.

    A decision is a set of endpoints, "drop" or "reject". It depends on the node, hints and conditions of each endpoint,
    both traffic policies, the kind of address, and the client. docs/small-scope.md lists all values.
    """
    from conformance import decision_program, small_scope  # noqa: PLC0415

    demand = small_scope.AllowedOutcomes(reading, not no_node_hints, any_silence)
    option = f"--program {program}" if program else f"--decisions {name}"
    simplest: dict[Any, Counterexample] = {}
    states, start = 0, time.perf_counter()
    try:
        with ExitStack() as stack:
            if program:
                command = shlex.split(program)
                check = partial(small_scope.check_all, stack.enter_context(decision_program.running(command)))
            else:
                check = partial(small_scope.check, _function(name))
            click.echo(f"{'endpoints':<16}{'sets':>10}{'states':>13}{'undefined':>13}{'wrong':>13}")
            for title, sets in small_scope.scope(size):
                found = check(sets, demand)
                click.echo(f"{title:<16}{found.sets:>10,}{found.states:>13,}{found.undefined:>13,}{found.wrong:>13,}")
                states += found.states
                simplest = {**found.simplest, **simplest}  # earlier counterexamples have fewer endpoints
                if simplest and not every_group:
                    break
    except small_scope.DecisionError as error:
        raise click.UsageError(f"{option}: {error}") from error
    if every_group and simplest:
        click.echo(f"\nThe simplest counterexample of each rule and policy ({len(simplest)}):")
        for each in sorted(simplest.values(), key=lambda one: one.weight):
            click.echo(f"\n{describe(each)}")
    elif simplest:
        smallest = min(simplest.values(), key=lambda one: one.weight)
        click.echo(f"\nThe simplest counterexample:\n\n{describe(smallest)}")
    if simplest:
        return 1
    seconds = time.perf_counter() - start
    click.echo(f"\n{states:,} states in {seconds:.0f} s: no counterexample up to {size} endpoint{'s' * (size != 1)}")
    return 0


def _function(name: str) -> Callable[[Any], Any]:
    known = {each.name: each for each in entry_points(group=GROUP)}
    module, _, function = (known[name].value if name in known else name).partition(":")
    if not function:
        raise click.UsageError(f"--decisions {name}: expected MODULE:FUNCTION, or one of {', '.join(sorted(known))}")
    if (here := os.getcwd()) not in sys.path:  # noqa: PTH109
        sys.path.insert(0, here)
    try:
        found = getattr(importlib.import_module(module), function)
    except (ImportError, AttributeError) as error:
        raise click.UsageError(f"--decisions {name}: {error}") from error
    if not callable(found):
        raise click.UsageError(f"--decisions {name}: it is not a function")
    return found  # type: ignore[no-any-return]


def describe(counterexample: Counterexample) -> str:
    state = counterexample.state
    clients = {"pod": "a pod on", "node": "the host network of", "external": "external, via"}
    facts = [
        (
            "client",
            f"{clients[state.client]} node {state.node}, {f'zone {state.zone}' if state.zone else 'without a zone'}",
        ),
        ("address", state.to.replace("-", " ").replace(" ip", " IP")),
        ("internal policy", state.internal),
        ("external policy", state.external),
        ("expected", _outcome(counterexample.right)),
        ("decided", _decision(counterexample.decided)),
    ]
    lines = [f"  {name:<17}{value}" for name, value in facts]
    head = ("endpoint", "node", "zone hints", "node hints", "ready", "serving", "terminating")
    rows: list[Sequence[str]] = [head, *map(_row, state.endpoints)]
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    table = ["  " + "  ".join(map(str.ljust, row, widths)).rstrip() for row in rows]
    return "\n".join([*lines, "", *(table if len(rows) > 1 else ["  no endpoints"])])


def _row(each: Endpoint) -> Sequence[str]:
    conditions = [
        "absent" if value is None else str(value).lower() for value in (each.ready, each.serving, each.terminating)
    ]
    return each.address, each.node or "-", _names(each.zone_hints), _names(each.node_hints), *conditions


def _names(names: Iterable[str]) -> str:
    return ", ".join(sorted(names)) or "-"


def _outcome(outcome: oracle.Outcome) -> str:
    match outcome:
        case oracle.AllowedPods(pods, by):
            return f"{_names(pods)} (rule: {by})"
        case oracle.NoReply.DROPPED:
            return "drop"
        case oracle.NoReply.REFUSED:
            return "reject"
    return "drop or reject"


def _decision(decided: Any) -> str:
    return (_names(decided) if decided else "no endpoint") if isinstance(decided, frozenset) else str(decided)
