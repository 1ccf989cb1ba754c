"""The constants equal those in the kernel's headers. The test needs a compiler and the headers."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import pytest

from reference.proxy import uapi

HEADERS = (
    "sys/socket.h",
    "linux/icmp.h",
    "linux/icmpv6.h",
    "linux/netlink.h",
    "linux/netfilter.h",
    "linux/netfilter/nf_conntrack_common.h",
    "linux/netfilter/nf_nat.h",
    "linux/netfilter/nf_tables.h",
    "linux/netfilter/nfnetlink.h",
    "linux/netfilter/nfnetlink_conntrack.h",
)
NOT_IN_HEADERS = ("CTA_FILTER_F_", "SOL_NETLINK")


@pytest.mark.skipif(
    shutil.which("cc") is None or not all(Path("/usr/include", each).exists() for each in HEADERS[1:]),
    reason="unavailable: no C compiler, or no kernel headers",
)
def test_numbers_are_those_of_the_kernels_headers(tmp_path: Path) -> None:
    names = {name: value for name, value in vars(uapi).items() if name.isupper() and isinstance(value, int)}
    checks = [
        f'_Static_assert(({name} & 0xFFFFFFFF) == ({value & 0xFFFFFFFF:#x} & 0xFFFFFFFF), "{name}");'
        for name, value in names.items()
        if not name.startswith(NOT_IN_HEADERS) and name != "NLA_TYPE_MASK"
    ]
    assert len(checks) > 100
    source = tmp_path / "numbers.c"
    source.write_text("\n".join([*(f"#include <{each}>" for each in HEADERS), *checks, ""]))

    done = subprocess.run(["cc", "-fsyntax-only", source], capture_output=True, text=True, check=False)

    assert done.returncode == 0, done.stderr
