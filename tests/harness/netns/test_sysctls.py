from __future__ import annotations

import errno
from pathlib import Path

import pytest

from harness.errors import UnavailableError
from harness.netns import sysctls
from harness.netns.addresses import FAMILIES
from harness.netns.namespace import Namespace


def test_settings_are_written_only_in_the_netns(namespace: Namespace) -> None:
    with Namespace.create() as other:
        sysctls.apply(namespace, sysctls.of_router(FAMILIES))
        sysctls.apply(other, sysctls.of_host(FAMILIES))
        assert [read(each, "ipv4/ip_forward") for each in (namespace, other)] == ["1", "0"]
        assert [read(each, "ipv6/conf/all/forwarding") for each in (namespace, other)] == ["1", "0"]


def test_single_family_leaves_the_other_alone() -> None:
    assert all(path.startswith("ipv4/") for path in sysctls.of_router(["IPv4"]))
    assert all(path.startswith("ipv6/") for path in sysctls.of_host(["IPv6"]))


def test_unknown_setting_is_named(namespace: Namespace) -> None:
    with pytest.raises(
        UnavailableError, match=r"cannot write '1' to /proc/sys/net/ipv4/none .*this kernel does not have this setting"
    ):
        sysctls.apply(namespace, {"ipv4/none": "1"})


@pytest.mark.parametrize(
    ("number", "path", "expected"),
    [
        (errno.EROFS, "/proc/sys/net/ipv4/ip_forward", "/proc/sys is mounted read-only, as in most containers"),
        (errno.EACCES, "/proc/sys/net/ipv4/ip_forward", "call harness.netns.sandbox.enter() first"),
        (errno.ENOENT, "/proc/sys/net/ipv6/icmp/ratemask", "is IPv6 disabled"),
    ],
)
def test_refused_setting_is_reported_with_the_fix(number: int, path: str, expected: str) -> None:
    assert expected in sysctls.explain(path, "1", OSError(number, "refused"))


def read(namespace: Namespace, path: str) -> str:
    with namespace.entered():
        return Path(f"/proc/sys/net/{path}").read_text(encoding="ascii").strip()
