"""Tests that the requirements of a recipe are checked. The error names missing requirements and how to meet them."""

from __future__ import annotations

import errno
import os
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from harness.checks import program_requirements as required
from harness.checks.program_requirements import REQUIREMENTS, MachineRequirement
from harness.errors import UnavailableError
from harness.netns import rtnetlink
from harness.netns.kernel import KernelFeature
from harness.netns.namespace import Namespace


def refusing(number: int) -> Callable[[Namespace], object]:
    def refuse(_: Namespace) -> object:
        raise OSError(number, os.strerror(number))

    return refuse


def test_creatable_link_type_is_available(namespace: Namespace) -> None:
    """Check that bridges are available by creating a bridge.

    The kernel's error shows that a type of link is unknown.
    """
    assert REQUIREMENTS["bridge"].fault(namespace) == required.missing(["bridge"]).get("bridge", "")
    no_such = MachineRequirement(
        KernelFeature("nosuch devices", "CONFIG_NOSUCH", "nosuch"), lambda to: required._link("nosuch", to)
    )
    assert no_such.fault(namespace).startswith("this kernel has no nosuch devices (CONFIG_NOSUCH): load it with")


def test_program_is_required_by_its_name(monkeypatch: pytest.MonkeyPatch) -> None:
    assert required.missing(["program sh"]) == {}
    monkeypatch.setattr(required, "search_path", lambda: "/nowhere")
    assert required.missing(["program nft", "program dig"]) == {
        "program nft": "not installed: on Debian and Ubuntu `apt-get install nftables`",
        "program dig": "not installed: on Debian and Ubuntu `apt-get install dig`",
    }
    with pytest.raises(UnavailableError, match=r"mine has requirements .*: program nft: not installed: on Debian and"):
        required.require(["program nft"], "mine")


def test_generic_netlink_family_is_queried(namespace: Namespace) -> None:
    required._generic("nlctrl", namespace)
    with pytest.raises(OSError, match=os.strerror(errno.ENOENT)):
        required._generic("no-such", namespace)


@pytest.mark.parametrize(
    ("number", "said"),
    [
        (errno.EPERM, "this user cannot use X: run as root of the machine"),
        (errno.ENOENT, "this kernel has no X (CONFIG_X): load it with `modprobe x`, as root of the machine"),
        (errno.EIO, "X cannot be used: [Errno 5] Input/output error"),
    ],
)
def test_missing_requirement_shows_the_kernels_error(namespace: Namespace, number: int, said: str) -> None:
    assert MachineRequirement(KernelFeature("X", "CONFIG_X", "x"), refusing(number)).fault(namespace) == said


def test_each_requirement_is_tried_and_leaves_nothing() -> None:
    """Every missing requirement has a reason, and this process remains in its own namespaces."""
    before = Path("/proc/self/ns/mnt").readlink()
    absent = required.missing(REQUIREMENTS)
    assert set(absent) <= set(REQUIREMENTS)
    assert all(absent.values())
    assert Path("/proc/self/ns/mnt").readlink() == before


@pytest.mark.skipif(shutil.which("unshare") is None, reason="unavailable: unshare is not installed")
def test_root_in_a_user_namespace_does_not_count_as_root() -> None:
    module = ["-m", "harness.checks.program_requirements"]
    inside = ["unshare", "--user", "--map-root-user", sys.executable, *module, "root", "bridge"]
    ended = subprocess.run(inside, capture_output=True, text=True, timeout=60, check=False)
    if "unshare" in ended.stderr:
        pytest.skip(ended.stderr)
    assert "this user cannot use capabilities of root: run as root of the machine" in ended.stdout


def test_missing_requirement_is_reported_before_anything_starts(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(required, "_missing", lambda names: dict.fromkeys(names, "it is not here"))
    with pytest.raises(
        UnavailableError,
        match="mine has requirements that this machine does not satisfy: vxlan: it is not here; tun: it is",
    ):
        required.require(["vxlan", "tun"], "mine")


def test_link_check_agrees_with_the_kernel(namespace: Namespace) -> None:
    """Compare `missing`, which creates links of all types in one netns, with the separate creation of each link."""
    for kind in ("bridge", "dummy", "ifb"):
        absent = required.missing(["bridge", "dummy", "ifb"])
        try:
            rtnetlink.execute(namespace, [rtnetlink.link(kind, kind)])
        except rtnetlink.NetlinkError:
            assert kind in absent
        else:
            assert kind not in absent


def test_kernel_without_reply_is_reported(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(required, "_SECONDS", 0.001)
    required._missing.cache_clear()
    with pytest.raises(UnavailableError, match="the check of the requirements took longer than"):
        required.missing(["bridge"])
