"""Tests a DNS server that consists of several programs in one pod. Its objects exist before the programs start."""

from __future__ import annotations

from dataclasses import replace

import pytest

from harness.backends.implementation import reference
from harness.backends.netns import NetnsBackend
from harness.dns.executable import ExecutableDns
from harness.errors import StartError
from harness.model.topology import grid
from harness.netns import sandbox
from harness.recipes.recipe import OF_DNS, parse_recipe
from tests.harness.proxies.conftest import program

CONFIG = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "mine"}, "data": {"zones": "on"}}


def cluster(**keys: object) -> NetnsBackend:
    sandbox.enter()
    recipe = parse_recipe({"name": "mine", "quiet_seconds": 0, **keys}, OF_DNS)
    made = replace(reference(), dns=lambda plane: ExecutableDns(plane, recipe))
    return NetnsBackend(grid("one-node", {"a": 1}), implementation=made)


def test_programs_of_a_dns_server_share_a_pod_and_find_the_objects() -> None:
    locator = program("locator", "echo {pod_ips} > /run/told; echo up")
    server = program("server", "cat /run/told; uname -n; echo up")
    wanted = {"programs": [locator, server], "objects": [CONFIG], "isolation": ["run", "hostname"]}
    with cluster(**wanted) as booted:
        addresses = ",".join(booted.dns().values())
        assert booted.evidence("default", since=0)["server-dns.log"] == f"{addresses}\ndns\nup\n"
        assert booted.api.get("configmaps", "default", "mine")["data"] == {"zones": "on"}


def test_program_of_a_dns_server_that_does_not_start_is_named() -> None:
    fails = program("server", "echo no such zone; exit 2")
    said = r"server on dns exited with 2; .*no such zone"
    with cluster(programs=[fails]) as booted, pytest.raises(StartError, match=said):
        booted.dns()
