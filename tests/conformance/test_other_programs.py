"""Tables of other programs: the kernel protects those that are owned, and the installed nft cannot read newer ones."""

from __future__ import annotations

import errno
import os
import socket
from collections.abc import Iterator
from contextlib import closing

import pytest

from conformance.other_programs import IPV4, NETLINK_NETFILTER, NEWSET, NEWTABLE, Message, OtherProgram, Table
from harness.netns import process
from harness.netns.namespace import Namespace
from trafficdist import IneligibleError

PROXY = Table(IPV4, "proxy")


@pytest.fixture
def node() -> Iterator[Namespace]:
    with Namespace.create() as namespace:
        yield namespace


def program(node: Namespace) -> closing[OtherProgram]:
    return closing(OtherProgram(node.socket(socket.AF_NETLINK, socket.SOCK_RAW, NETLINK_NETFILTER), "a1"))


def test_owned_tables_refuse_other_programs_until_the_owner_ends(node: Namespace) -> None:
    with program(node) as proxy, program(node) as owner:
        assert proxy.commit([Message(NEWTABLE, PROXY)]) == set()
        assert owner.take_tables() == ["proxy"]
        assert owner.take_tables() == []
        assert proxy.commit([Message(NEWTABLE, PROXY)]) == {errno.EPERM}

        assert proxy.commit([Message(NEWTABLE, Table(IPV4, "other-name"))]) == set()
        assert owner.take_tables() == ["other-name"]
        owner.close()
        assert proxy.take_tables() == []
        assert proxy.commit([Message(NEWTABLE, PROXY)]) == set()


def test_tables_that_have_an_owner_cannot_be_taken(node: Namespace) -> None:
    with program(node) as proxy, program(node) as owner, program(node) as late:
        proxy.commit([Message(NEWTABLE, PROXY)])
        owner.take_tables()
        with pytest.raises(IneligibleError, match=rf"tables on a1: {os.strerror(errno.EPERM)}$"):
            late.take_tables()


def test_node_without_tables_has_none_to_take(node: Namespace) -> None:
    with program(node) as owner:
        assert owner.take_tables() == []


def test_a_refused_message_undoes_the_transaction(node: Namespace) -> None:
    with program(node) as other:
        assert other.commit([Message(NEWTABLE, PROXY), Message(NEWSET, PROXY)]) == {errno.EINVAL}
        assert other.take_tables() == []


def test_installed_nft_reads_no_newer_tables(node: Namespace) -> None:
    """An nft that has the fix (kubernetes#136786) lists the sets."""
    with program(node) as other:
        assert process.run(node, ["nft", "list", "tables"]).stdout == ""
        other.add_newer_tables()
        listed = process.run(node, ["nft", "list", "ruleset"])
        assert listed.returncode < 0 or listed.stdout.count("set queues") == 3

        other.delete_newer_tables()
        assert other.take_tables() == []
        assert process.run(node, ["nft", "list", "ruleset"]).returncode == 0
