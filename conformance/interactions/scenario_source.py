"""Python source for parts of scenarios, shared by cells and live changes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from conformance.interactions.cells import ASKED_FROM, CellEndpoint


def test(name: str, lines: Sequence[str]) -> str:
    """Return the source of a test with this name and these lines."""
    return "\n".join([f"def test_{name.replace('-', '_')}(three_zones):", *(f"    {line}" for line in lines)]) + "\n"


def call(function: str, *arguments: str, **fields: Any) -> str:
    """Return the source of a call. `arguments` are source code, and `fields` are values."""
    return f"{function}({', '.join([*arguments, *(f'{name}={value!r}' for name, value in fields.items())])})"


def port(protocol: str, number: int | str) -> str:
    """Return the source code of a `Port` for a Service or slice."""
    return f"Port(80, {protocol!r}, 'web', {number!r})"


def endpoint(server: str, written: CellEndpoint) -> str:
    """Return the source of an `endpoint` call. `server` is the name of the variable that contains the server."""
    hints = {"zones": list(written.zones), "nodes": list(written.nodes)}
    return call("endpoint", server, **{name: value for name, value in hints.items() if value}, **written.conditions)


def expectation(
    service: str, client: str, answers: Mapping[str, Sequence[str]], *, kept: bool = False, **address: Any
) -> list[str]:
    """Return the source of the expected answers for clients on (or via) these nodes."""
    speaking = {node: servers for node, servers in answers.items() if servers}
    silent = {node: servers for node, servers in answers.items() if not servers}
    groups = [("expect_affinity", speaking), ("expect_traffic", silent)] if kept else [("expect_traffic", answers)]
    return [call(function, "three_zones", service, _rows(client, each), **address) for function, each in groups if each]


def proof_of_answers(
    service: str, client: str, protocol: str, answers: Mapping[str, Sequence[str]], **address: Any
) -> list[str]:
    """Return source lines that publish extra servers, expect answers from them, and unpublish them.

    They prove that the Service can answer. Without this proof, silence later in the scenario would show nothing.
    """
    ports = f"ports=[{port(protocol, 8080)}]"
    return [
        f"speakers = three_zones.run_servers({list(ASKED_FROM)!r})",
        f"three_zones.publish({service}, [endpoint(each) for each in speakers], name='speech', {ports})",
        *expectation(service, client, answers, **address),
        f"three_zones.unpublish({service}, 'speech')",
    ]


def _rows(client: str, answers: Mapping[str, Sequence[str]]) -> str:
    rows = (f"{client}_client({node!r}): {_row(servers)}" for node, servers in answers.items())
    return "{" + ", ".join(rows) + "}"


def _row(servers: Sequence[str]) -> str:
    return "{" + ", ".join(servers) + "}" if servers else "NO_ANSWER"
