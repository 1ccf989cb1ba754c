"""A program in any language can answer `trafficdist check-decisions`, as one process for each node."""

from __future__ import annotations

import shlex
import sys
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from conformance import oracle
from conformance.decision_program import running
from conformance.small_scope import AllowedOutcomes, ScopeResult, check_all, repeated_addresses, sets
from harness.commands.main import main
from harness.judging.exit_codes import ExitCode

HEAD = """
import json, os, sys
from itertools import product
from types import SimpleNamespace as Values

CLIENTS, ADDRESSES = ("pod", "node", "external"), ("cluster-ip", "node-port", "load-balancer", "external-ip")

def plain(answer):
    return answer if isinstance(answer, str) else sorted(answer)
"""

RIGHT = (
    HEAD
    + """
from reference.proxy.plain_values import decide_plain_values as decide

def answer(line):
    service = json.loads(line)
    endpoints = tuple(Values(**{**each, "zone_hints": frozenset(each["zone_hints"]),
                                "node_hints": frozenset(each["node_hints"])}) for each in service["endpoints"])
    place = {"node": os.environ["K8S_NODE_NAME"], "zone": os.environ["ZONE"]}
    policies = {"internal": service["internal"], "external": service["external"]}
    return json.dumps({f"{client} {to}": plain(decide(Values(endpoints=endpoints, client=client, to=to, **place,
                                                             **policies)))
                       for client, to in product(CLIENTS, ADDRESSES)})
"""
)

AT_ONCE = """
for line in sys.stdin:
    if line.strip():
        print(answer(line), flush=True)
"""

IN_BATCHES = """
lines = []
for line in sys.stdin:
    if line.strip():
        lines.append(line)
    else:
        print(*map(answer, lines), sep="\\n", flush=True)
        lines = []
"""

ALWAYS = (
    HEAD
    + """
def answer(line):
    return sys.argv[1]
"""
)

SOME = [*sets(0), *list(sets(1))[::50], *list(sets(2))[::200], *list(repeated_addresses())[::100]]


def _found(program: str, *arguments: str, **demand: bool) -> ScopeResult:
    with running([sys.executable, "-c", program, *arguments]) as decide_all:
        return check_all(decide_all, SOME, AllowedOutcomes("released", **demand))


@pytest.mark.parametrize("reads", [AT_ONCE, IN_BATCHES])
def test_program_is_asked_about_each_state(reads: str) -> None:
    found = _found(RIGHT + reads)
    assert found.smallest is None
    assert found.sets == len(SOME)
    assert found.states > 10_000


def test_an_address_that_a_program_does_not_cover_is_not_judged() -> None:
    found = _found(ALWAYS + AT_ONCE, '{"pod cluster-ip": "reject"}')
    assert 0 < found.wrong < found.states
    assert {each.state.to for each in found.simplest.values()} == {"cluster-ip"}
    assert {each.state.client for each in found.simplest.values()} == {"pod"}


def test_a_program_may_drop_or_reject_if_that_is_demanded() -> None:
    answer = '{"pod cluster-ip": "reject"}'
    strict = _found(ALWAYS + AT_ONCE, answer)
    lenient = _found(ALWAYS + AT_ONCE, answer, any_silence=True)
    assert oracle.NoReply.DROPPED in {rule for rule, *_ in strict.simplest}
    assert oracle.NoReply.DROPPED not in {rule for rule, *_ in lenient.simplest}


def test_node_hints_are_not_demanded_of_a_program_without_them() -> None:
    answer = '{"pod cluster-ip": "reject"}'
    assert "node hints" in {rule for rule, *_ in _found(ALWAYS + AT_ONCE, answer).simplest}
    found = _found(ALWAYS + AT_ONCE, answer, node_hints=False)
    assert "node hints" not in {rule for rule, *_ in found.simplest}


# The command


def _run(program: Path | str, *arguments: str) -> Result:
    command = str(program) if isinstance(program, str) else shlex.join([sys.executable, str(program), *arguments])
    return CliRunner().invoke(main, ["check-decisions", "--endpoints", "0", "--every-group", "--program", command])


@pytest.fixture
def always(tmp_path: Path) -> Path:
    program = tmp_path / "always.py"
    program.write_text(ALWAYS + AT_ONCE, encoding="utf-8")
    return program


def test_command_checks_a_program(always: Path) -> None:
    done = _run(always, '{"pod cluster-ip": "reject", "external node-port": "reject"}')
    assert done.exit_code == ExitCode.PASSED
    assert "24 states in" in done.output


def test_command_shows_a_counterexample_of_each_rule_and_policy(always: Path) -> None:
    done = _run(always, '{"pod cluster-ip": ["10.244.0.1"]}')
    assert done.exit_code == ExitCode.FAILED
    assert "The simplest counterexample of each rule and policy (4):" in done.output
    assert done.output.count("decided          10.244.0.1") == 4


@pytest.mark.parametrize(
    ("answer", "said"),
    [
        ("", "it answered ''"),
        ("[]", "it answered '[]'"),
        ('{"pod cluster-ip": "ignore"}', "it answered"),
        ('{"pod cluster-ip": 7}', "it answered"),
    ],
)
def test_command_states_what_a_program_answers_wrongly(always: Path, answer: str, said: str) -> None:
    done = _run(always, answer)
    assert done.exit_code == ExitCode.USAGE
    assert said in done.output


def test_command_states_that_a_program_ended(tmp_path: Path) -> None:
    (tmp_path / "ends.py").write_text("", encoding="utf-8")
    done = _run(tmp_path / "ends.py")
    assert done.exit_code == ExitCode.USAGE
    assert "it ended, for" in done.output


def test_command_states_that_there_is_no_program() -> None:
    done = _run("no-such-program")
    assert done.exit_code == ExitCode.USAGE
    assert "no-such-program: No such file or directory" in done.output
