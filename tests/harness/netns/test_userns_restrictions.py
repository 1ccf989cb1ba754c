from __future__ import annotations

import errno
from dataclasses import replace

import pytest

from harness.netns.userns_restrictions import UsernsFailure, explain, read

REFUSED = UsernsFailure(
    "user namespace", errno.EPERM, max_user_namespaces="1000", max_net_namespaces="1000", seccomp="0"
)
FULL = replace(REFUSED, number=errno.ENOSPC)

CASES = {
    "debian": (replace(REFUSED, userns_clone="0"), "sysctl -w kernel.unprivileged_userns_clone=1"),
    "no user namespaces": (replace(FULL, max_user_namespaces="0"), "sysctl -w user.max_user_namespaces=10000"),
    "no net namespaces": (replace(FULL, max_net_namespaces="0"), "sysctl -w user.max_net_namespaces=10000"),
    "full of users": (FULL, "all 1000 that user.max_user_namespaces allows are in use"),
    "full of nets": (
        replace(FULL, step="network namespace"),
        "all 1000 that user.max_net_namespaces allows are in use",
    ),
    "ubuntu": (replace(REFUSED, apparmor="1"), "sysctl -w kernel.apparmor_restrict_unprivileged_userns=0"),
    "ubuntu, late": (replace(REFUSED, apparmor="1", step="network namespace"), "an AppArmor profile with `userns,`"),
    "docker": (
        replace(REFUSED, container="Docker", seccomp="2"),
        "confined by Docker; start the container with --privil",
    ),
    "docker on ubuntu": (replace(REFUSED, container="Docker", apparmor="1"), "--cap-add SYS_ADMIN --cap-add NET_ADMIN"),
    "seccomp": (replace(REFUSED, seccomp="2"), "confined by a seccomp filter"),
    "kernel": (replace(REFUSED, number=errno.EINVAL), "this kernel has no user namespaces (CONFIG_USER_NS)"),
    "unknown": (REFUSED, "look for a chroot or an SELinux policy, or run as root"),
    "allowed by debian": (replace(REFUSED, userns_clone="1", apparmor="1"), "AppArmor restricts it"),
}


@pytest.mark.parametrize(("readings", "expected"), CASES.values(), ids=CASES)
def test_explanation_names_the_setting_and_the_fix(readings: UsernsFailure, expected: str) -> None:
    assert expected in explain(readings)


def test_explanation_opens_with_the_step_and_the_kernels_error() -> None:
    text = explain(replace(REFUSED, step="network namespace"))
    assert text.startswith("cannot create a network namespace as an ordinary user (Operation not permitted): ")


def test_detected_limits_match_this_machine() -> None:
    readings = read("user namespace", errno.EPERM)
    assert int(readings.max_user_namespaces) > 0
    assert readings.seccomp in {"0", "2"}
