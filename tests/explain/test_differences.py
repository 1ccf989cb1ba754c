"""`--diff` and `--all --if version=…` list the Services whose routes differ."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from explain import objects as files
from harness.commands.main import main
from tests.explain.cluster_builders import endpoint, objects, of_slice, proxy, service
from tests.explain.recorded_cases import NODE_HINTS

NONE_IN_C = "zone c has no endpoint: its nodes use those of other zones"


def run(*arguments: str) -> Result:
    return CliRunner().invoke(main, ["explain", *arguments], env={"COLUMNS": "160"})


@pytest.fixture
def dumps(tmp_path: Path) -> tuple[str, str]:
    """Return two recordings. In the second, zone c has no endpoint, and pods have other addresses."""
    files.write(objects(), tmp_path / "before")
    files.write(objects(service(), of_slice(endpoint("a1", number=7), endpoint("b1"))), tmp_path / "after")
    return str(tmp_path / "before"), str(tmp_path / "after")


def test_services_that_two_dumps_route_differently_are_listed(dumps: tuple[str, str]) -> None:
    result = run("--from", dumps[0], "--diff", dumps[1])
    assert result.exit_code == 1, result.output
    assert result.output.splitlines() == [
        "shop/web: c1",
        "  before    connections stay in the zone of the client, from all 5 nodes, if kube-proxy serves them",
        f"  after     connections leave their zone from 1 of 5 nodes: {NONE_IN_C}",
        "1 of 1 Service differs",
    ]
    assert run("--from", dumps[0], "--diff", dumps[1], "--fail-on", "failing").exit_code == 0
    told = json.loads(run("--from", dumps[0], "--diff", dumps[1], "--format", "json").output)
    assert [(each["service"], each["nodes"]) for each in told["differences"]] == [("shop/web", ["c1"])]


def test_equal_dumps_do_not_differ(dumps: tuple[str, str]) -> None:
    result = run("--from", dumps[0], "--diff", dumps[0])
    assert (result.exit_code, result.output.strip()) == (0, "0 of 1 Service differ")


def test_difference_that_no_headline_shows_has_an_example(tmp_path: Path) -> None:
    for name, hints in (("before", "a"), ("after", "ab")):
        on_a = [endpoint(each, hints=hints) for each in ("a1", "a2")]
        files.write(objects(service(asks=""), of_slice(*on_a)), tmp_path / name)
    lines = run("--from", str(tmp_path / "before"), "--diff", str(tmp_path / "after")).output.splitlines()
    assert lines[1].partition("before")[2].strip() == lines[2].partition("after")[2].strip()
    elsewhere = ", with endpoints of other zones"
    assert lines[3] == f"  example   b1 80/TCP IPv4 used anywhere{elsewhere}, and uses zone{elsewhere}"


def test_services_that_an_upgrade_routes_differently_are_listed(tmp_path: Path) -> None:
    old = [proxy(each, "v1.32.1") for each in ("a1", "a2", "b1", "b2", "c1")]
    files.write(objects(service(asks="PreferSameNode"), NODE_HINTS, proxies=old, version="v1.32.1"), tmp_path / "old")
    result = run("--all", "--from", str(tmp_path / "old"), "--if", "version=1.37")
    assert (result.exit_code, result.output.splitlines()[0]) == (1, "shop/web: a1 b1 c1")
    files.write(objects(), tmp_path / "new")
    assert run("--all", "--from", str(tmp_path / "new"), "--if", "version=1.36").exit_code == 0


@pytest.mark.parametrize("arguments", [("--all", "--if", "scale=2"), ("shop/web", "--diff", "x"), ("--diff", "x")])
def test_incompatible_options_are_refused(arguments: tuple[str, ...]) -> None:
    assert run(*arguments).exit_code == 4
