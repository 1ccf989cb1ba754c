"""Explains why an ordinary user's process cannot create a user namespace, and how to allow it."""

import errno
import os
from dataclasses import dataclass
from pathlib import Path

_AS_ROOT = "or run as root"


@dataclass(frozen=True, slots=True)
class UsernsFailure:
    """The failed step, and the settings that may explain the failure. The content of a missing file is ""."""

    step: str  # "user namespace", "network namespace" or "loopback"
    number: int  # errno
    userns_clone: str = ""  # kernel.unprivileged_userns_clone, of Debian and Arch
    max_user_namespaces: str = ""
    max_net_namespaces: str = ""
    apparmor: str = ""  # kernel.apparmor_restrict_unprivileged_userns, of Ubuntu
    seccomp: str = ""  # "Seccomp" of /proc/self/status: "2" under a filter, as in containers
    container: str = ""  # its type


def read(step: str, number: int) -> UsernsFailure:
    status = _text("/proc/self/status").splitlines()
    return UsernsFailure(
        step,
        number,
        userns_clone=_text("/proc/sys/kernel/unprivileged_userns_clone"),
        max_user_namespaces=_text("/proc/sys/user/max_user_namespaces"),
        max_net_namespaces=_text("/proc/sys/user/max_net_namespaces"),
        apparmor=_text("/proc/sys/kernel/apparmor_restrict_unprivileged_userns"),
        seccomp=next((line.split()[1] for line in status if line.startswith("Seccomp:")), ""),
        container=_container(),
    )


def explain(readings: UsernsFailure) -> str:
    """Return one sentence with the failed step, the setting that forbids it, and how to change it."""
    error = os.strerror(readings.number)
    return f"cannot create a {readings.step} as an ordinary user ({error}): {_cause(readings)}"


def _cause(readings: UsernsFailure) -> str:  # noqa: PLR0911  one return for each cause
    number = readings.number
    if readings.userns_clone == "0":
        return f"kernel.unprivileged_userns_clone is 0; {_set('kernel.unprivileged_userns_clone', 1)}"
    of_user = ("user.max_user_namespaces", readings.max_user_namespaces)
    of_net = ("user.max_net_namespaces", readings.max_net_namespaces)
    for name, value in (of_user, of_net):
        if value == "0":
            return f"{name} is 0; {_set(name, 10000)}"
    if number == errno.ENOSPC:
        name, value = of_user if readings.step == "user namespace" else of_net
        return f"all {value} that {name} allows are in use; end other sandboxes, or raise it as root with sysctl -w"
    refused = number in (errno.EPERM, errno.EACCES)
    if refused and (readings.container or readings.seccomp == "2"):
        kind = readings.container or "a seccomp filter (a container, or a service's SystemCallFilter)"
        return (
            f"this process is confined by {kind}; start the container with --privileged, or with --cap-add SYS_ADMIN "
            "--cap-add NET_ADMIN --security-opt apparmor=unconfined --security-opt systempaths=unconfined"
        )
    if refused and readings.apparmor == "1":
        return (
            "AppArmor restricts it: kernel.apparmor_restrict_unprivileged_userns is 1, as on Ubuntu; give this Python "
            f"an AppArmor profile with `userns,`, or {_set('kernel.apparmor_restrict_unprivileged_userns', 0)}"
        )
    if number == errno.EINVAL and readings.step == "user namespace":
        return f"this kernel has no user namespaces (CONFIG_USER_NS); use another kernel, {_AS_ROOT}"
    return f"no known setting forbids it here; look for a chroot or an SELinux policy, {_AS_ROOT}"


def _set(name: str, value: int) -> str:
    return f"as root: sysctl -w {name}={value}, {_AS_ROOT}"


def _text(path: str) -> str:
    try:
        return Path(path).read_text(encoding="ascii", errors="replace").strip()
    except OSError:
        return ""


def _container() -> str:
    marks = {"/.dockerenv": "Docker", "/run/.containerenv": "Podman"}
    marked = next((kind for path, kind in marks.items() if Path(path).exists()), "")
    return marked or os.environ.get("container", "")  # noqa: SIM112  systemd's name for it is in small letters
