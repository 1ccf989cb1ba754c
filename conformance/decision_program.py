"""Run the decision program of an implementation. It reads states from stdin, and writes its decisions to stdout.

A decision program is for implementations in other languages, which have no Python function that the suite can call. One
process runs for each node, with the environment variables K8S_NODE_NAME and ZONE, and makes the decisions of this node.
docs/small-scope.md describes the format of the lines.
"""

from __future__ import annotations

import json
import os
import subprocess
import threading
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager, suppress
from itertools import groupby
from typing import IO, Any, Self

from conformance.small_scope import NOT_COVERED, PLACES, DecideAll, DecisionError, Endpoint, State

_SILENT = {"drop", "reject"}


@contextmanager
def running(command: Sequence[str]) -> Iterator[DecideAll]:
    """Run a process for each node. Yield a function that returns decisions, or raises `DecisionError`."""
    with ExitStack() as stack:
        programs = {node: stack.enter_context(_Program(command, node, zone)) for node, zone in PLACES}
        pool = stack.enter_context(ThreadPoolExecutor(len(programs)))

        def decide_all(states: Sequence[State]) -> list[Any]:
            numbers = {node: [number for number, each in enumerate(states) if each.node == node] for node in programs}
            asked = {node: [states[number] for number in mine] for node, mine in numbers.items()}
            answers = pool.map(lambda node: programs[node].decide_all(asked[node]), programs)
            found = dict(zip(programs, answers, strict=True))
            decisions: list[Any] = [None] * len(states)
            for node, mine in numbers.items():
                for number, decision in zip(mine, found[node], strict=True):
                    decisions[number] = decision
            return decisions

        yield decide_all


class _Program:
    """A process of the decision program, for one node. Leaving the context kills the process."""

    def __init__(self, command: Sequence[str], node: str, zone: str) -> None:
        environment = {**os.environ, "K8S_NODE_NAME": node, "ZONE": zone}
        self._name = command[0]
        try:
            self._process = subprocess.Popen(  # noqa: S603  the program that is judged
                command, env=environment, stdin=subprocess.PIPE, stdout=subprocess.PIPE, encoding="utf-8"
            )
        except OSError as error:
            raise DecisionError(f"{self._name}: {error.strerror}") from error

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._process.kill()
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        with suppress(BrokenPipeError):
            self._process.stdin.close()
        self._process.stdout.close()
        self._process.wait()

    def decide_all(self, states: Sequence[State]) -> list[Any]:
        """Send one line for the states of each Service, and an empty line after the batch. Return the decisions."""
        groups = [list(some) for _, some in groupby(states, lambda each: (id(each.endpoints), each[-2:]))]
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        text = "".join(f"{_line(some[0])}\n" for some in groups)
        writer = threading.Thread(target=_write, args=(self._process.stdin, text + "\n"))
        writer.start()  # a program may answer each line immediately, and stop reading until its answers are read
        try:
            return [each for some in groups for each in self._read(self._process.stdout.readline(), some)]
        finally:
            writer.join()

    def _read(self, line: str, states: Sequence[State]) -> Iterator[Any]:
        try:
            answers = {name: _decision(each) for name, each in json.loads(line).items()}
        except (ValueError, AttributeError, TypeError):
            self._process.kill()
            what = f"it answered {line.strip()[:200]!r}" if line else "it ended"
            raise DecisionError(f"{self._name}: {what}, for {_line(states[0])}") from None
        for each in states:
            yield answers.get(f"{each.client} {each.to}", NOT_COVERED)


def _write(to: IO[str], text: str) -> None:
    with suppress(BrokenPipeError):  # the program ended; the thread that reads its answers reports this
        to.write(text)
        to.flush()


def _line(state: State) -> str:
    endpoints = [_plain(each) for each in state.endpoints]
    return json.dumps({"endpoints": endpoints, "internal": state.internal, "external": state.external})


def _plain(endpoint: Endpoint) -> dict[str, Any]:
    fields = endpoint._asdict().items()
    return {name: sorted(each) if isinstance(each, frozenset) else each for name, each in fields}


def _decision(answer: Any) -> Any:
    if isinstance(answer, str):
        if answer not in _SILENT:
            raise ValueError
        return answer
    return frozenset(answer)
