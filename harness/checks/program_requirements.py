"""Check whether this machine has the features that programs in a netns require, by trying to use each in a
separate process. If the user is not root, this process becomes root of a user namespace, as in a run. When the process
ends, the kernel removes its mounts, but keeps the modules that it loaded.
"""

import ctypes
import errno
import functools
import json
import os
import platform
import shutil
import socket
import struct
import subprocess
import sys
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass

from harness.errors import HarnessError, UnavailableError
from harness.netns import kernel, rtnetlink, sandbox
from harness.netns.isolation import OWN, ProgramSandbox
from harness.netns.kernel import KernelFeature
from harness.netns.namespace import Namespace
from harness.netns.netlink import attribute, message, messages
from harness.netns.process import search_path

PROGRAM = "program "  # first word of a requirement that is the name of a program

PACKAGES: Mapping[str, str] = {"nft": "nftables", "ip6tables": "iptables", "ip": "iproute2", "tc": "iproute2"}
"""The Debian and Ubuntu package of each program whose package has a different name."""

_SECONDS = 20.0  # seconds for all requirements together
_GENERIC, _CONTROL, _GETFAMILY = 16, 16, 3  # NETLINK_GENERIC, GENL_ID_CTRL, CTRL_CMD_GETFAMILY
_SYSCALLS = {"x86_64": 321, "s390x": 351, "ppc64le": 361}  # bpf(2); 280 on architectures with generic numbers
_PROG_LOAD, _SCHED_CLS = 5, 3
_RETURN_0 = bytes.fromhex("b7000000000000009500000000000000")
_REFUSED = frozenset({errno.EPERM, errno.EACCES})
_ABSENT = frozenset({errno.ENOENT, errno.ENODEV, errno.ENOSYS, errno.ENXIO, errno.EOPNOTSUPP})


def missing(names: Iterable[str]) -> dict[str, str]:
    """Return the reason and the fix for each unmet requirement, keyed by its name. Raises `UnavailableError`."""
    wanted = tuple(names)
    programs = {each: absent(each.removeprefix(PROGRAM)) for each in wanted if each.startswith(PROGRAM)}
    found = {**programs, **_missing(tuple(each for each in wanted if each not in programs))}
    return {each: found[each] for each in wanted if found.get(each)}


def absent(program: str) -> str:
    """Return an error text with the fix if a program is not installed, else ""."""
    if shutil.which(program, path=search_path()) is not None:
        return ""
    return f"not installed: on Debian and Ubuntu `apt-get install {PACKAGES.get(program, program)}`"


def require(names: Iterable[str], who: str) -> None:
    if absent := missing(names):
        reasons = "; ".join(f"{name}: {why}" for name, why in absent.items())
        raise UnavailableError(f"{who} has requirements that this machine does not satisfy: {reasons}")


@functools.cache
def _missing(names: tuple[str, ...]) -> dict[str, str]:
    if not names:
        return {}
    trying = [sys.executable, "-P", "-m", "harness.checks.program_requirements", *names]
    try:
        ended = subprocess.run(trying, cwd="/", capture_output=True, text=True, timeout=_SECONDS, check=False)  # noqa: S603
    except subprocess.TimeoutExpired as error:
        raise UnavailableError(f"the check of the requirements took longer than {_SECONDS:g} s") from error
    if ended.returncode != 0:
        raise UnavailableError(f"the requirements cannot be checked: {ended.stderr.strip()}")
    return dict(json.loads(ended.stdout))


@dataclass(frozen=True, slots=True)
class MachineRequirement:
    """A kernel feature that a program requires. `try_` uses it, and raises `OSError` or `NetlinkError` on failure."""

    feature: KernelFeature
    try_: Callable[[Namespace], object]

    def fault(self, namespace: Namespace) -> str:
        try:
            self.try_(namespace)
        except (OSError, rtnetlink.NetlinkError) as error:
            number = error.number if isinstance(error, rtnetlink.NetlinkError) else error.errno
            if number in _REFUSED:
                return f"this user cannot use {self.feature.name}: run as root of the machine"
            if number in _ABSENT:
                return kernel.explain([self.feature])
            return f"{self.feature.name} cannot be used: {error}"
        return ""


def _be_root(_: Namespace) -> None:
    """Raise an error unless this process is root of the machine, and not only of a user namespace."""
    if os.geteuid() or sandbox.left():
        raise PermissionError(errno.EPERM, os.strerror(errno.EPERM))


def _link(kind: str, namespace: Namespace) -> None:
    """Try to create a link of this kind. EINVAL means that the kernel supports the kind, but needs more arguments."""
    try:
        rtnetlink.execute(namespace, [rtnetlink.link(kind, f"td-{kind}")])
    except rtnetlink.NetlinkError as error:
        if error.number != errno.EINVAL:
            raise


def _generic(family: str, namespace: Namespace) -> None:
    """Look up a generic netlink family. If necessary, the kernel loads the family's module."""
    body = struct.pack("=BBH", _GETFAMILY, 1, 0) + attribute(2, family.encode() + b"\0")  # CTRL_ATTR_FAMILY_NAME
    with namespace.socket(socket.AF_NETLINK, socket.SOCK_RAW, _GENERIC) as sock:
        sock.send(message(_CONTROL, 1, 1, body))
        kind, _, _, answer = next(messages(sock.recv(1 << 16)))
    if kind == 2:  # NLMSG_ERROR
        number = -struct.unpack_from("=i", answer)[0]
        raise OSError(number, os.strerror(number))


def _isolate(wanted: str, _: Namespace) -> None:
    ProgramSandbox("probe", [wanted]).close()


def _load_bpf(_: Namespace) -> None:
    code, licence = ctypes.create_string_buffer(_RETURN_0), ctypes.create_string_buffer(b"GPL")
    program = struct.pack("=IIQQ", _SCHED_CLS, 2, ctypes.addressof(code), ctypes.addressof(licence)).ljust(128, b"\0")
    libc = ctypes.CDLL(None, use_errno=True)
    loaded = libc.syscall(_SYSCALLS.get(platform.machine(), 280), _PROG_LOAD, program, len(program))
    if loaded < 0:
        raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()))
    os.close(loaded)


def _open_tun(_: Namespace) -> None:
    with open("/dev/net/tun", "rb", buffering=0):  # noqa: PTH123  a device
        pass


_OPTIONS = {
    "mounts": "CONFIG_NAMESPACES",
    "bpffs": "CONFIG_BPF_SYSCALL",
    "cgroup2": "CONFIG_CGROUPS",
    "run": "CONFIG_TMPFS",
    "hostname": "CONFIG_UTS_NS",
    "sysctls": "CONFIG_TMPFS",
}
REQUIREMENTS: Mapping[str, MachineRequirement] = {
    "root": MachineRequirement(KernelFeature("capabilities of root", "", ""), _be_root),
    "bpf": MachineRequirement(KernelFeature("BPF", "CONFIG_BPF_SYSCALL and CONFIG_NET_CLS_BPF", ""), _load_bpf),
    **{
        name: MachineRequirement(KernelFeature(what, _OPTIONS[name], ""), functools.partial(_isolate, name))
        for name, what in OWN.items()
    },
    "ip_vs": MachineRequirement(KernelFeature("IPVS", "CONFIG_IP_VS", "ip_vs"), functools.partial(_generic, "IPVS")),
    "openvswitch": MachineRequirement(
        KernelFeature("Open vSwitch", "CONFIG_OPENVSWITCH", "openvswitch"), functools.partial(_generic, "ovs_datapath")
    ),
    "tun": MachineRequirement(KernelFeature("tun devices", "CONFIG_TUN", "tun"), _open_tun),
    **{
        kind: MachineRequirement(
            KernelFeature(f"{kind} devices", f"CONFIG_{kind.upper()}", kind), functools.partial(_link, kind)
        )
        for kind in ("bridge", "dummy", "geneve", "ifb", "netkit", "vxlan", "wireguard")
    },
}


def main(names: Iterable[str]) -> str:
    """Try the named requirements, and return the reasons for failures as JSON. Raises `UnavailableError`."""
    sandbox.enter()
    with Namespace.create() as namespace:
        faults = {name: REQUIREMENTS[name].fault(namespace) for name in names}
    return json.dumps({name: fault for name, fault in faults.items() if fault})


if __name__ == "__main__":
    try:
        print(main(sys.argv[1:]))  # noqa: T201  it is what the caller reads
    except HarnessError as error:
        sys.exit(str(error))
