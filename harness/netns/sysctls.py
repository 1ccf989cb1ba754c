"""Sets the sysctls of a netns, through the /proc/sys/net of a thread that is in the netns."""

import errno
from collections.abc import Iterable, Mapping
from pathlib import Path

from harness.errors import UnavailableError
from harness.netns import sandbox
from harness.netns.addresses import Family
from harness.netns.namespace import Namespace

Settings = Mapping[str, str]

# If a rate limit dropped an ICMP error, a proxy's reject would look like TimedOut. The masks select the rate-limited
# types. IPv4 has none. IPv6 has only type 255, which is not an error, because an empty set cannot be written. Links
# have no IPv6 link-local address, because they resolve, advertise and redirect nothing.
_HOST: Mapping[Family, Settings] = {
    "IPv4": {"ipv4/ip_forward": "0", "ipv4/icmp_ratemask": "0"},  # a new netns inherits the machine's IPv4 forwarding
    "IPv6": {
        "ipv6/icmp/ratemask": "255",
        "ipv6/conf/default/disable_ipv6": "0",
        "ipv6/conf/default/addr_gen_mode": "1",
    },
}

# Replies may take a different path from requests. The kernel uses the larger of `all` and the link's own value, which
# later links copy from `default`, so both are written.
_ROUTER: Mapping[Family, Settings] = {
    "IPv4": {
        "ipv4/ip_forward": "1",
        "ipv4/conf/all/rp_filter": "0",
        "ipv4/conf/default/rp_filter": "0",
        "ipv4/conf/all/send_redirects": "0",
        "ipv4/conf/default/send_redirects": "0",
    },
    "IPv6": {"ipv6/conf/all/forwarding": "1"},
}


def of_host(families: Iterable[Family]) -> Settings:
    """Return the settings of pods and the external client: no forwarding, and ICMP errors without a rate limit."""
    return {path: value for family in families for path, value in _HOST[family].items()}


def of_router(families: Iterable[Family]) -> Settings:
    """Return the settings of nodes and the fabric: those of `of_host`, but with forwarding."""
    return {path: value for family in families for path, value in {**_HOST[family], **_ROUTER[family]}.items()}


def of_neighbours(families: Iterable[Family]) -> Settings:
    """Return the settings of a netns whose links resolve neighbours, and therefore need link-local addresses."""
    return {"ipv6/conf/default/addr_gen_mode": "0"} if "IPv6" in families else {}


def ignoring_redirects(families: Iterable[Family], link: str) -> Settings:
    """Return the settings to ignore ICMP redirects. The kernel requires the setting for `all` and for the link."""
    version: Mapping[Family, str] = {"IPv4": "ipv4", "IPv6": "ipv6"}
    return {f"{version[each]}/conf/{where}/accept_redirects": "0" for each in families for where in ("all", link)}


def of_programs() -> Settings:
    """Return the settings for programs without capabilities, as in containerd: they may use any port, and ping."""
    last = 0 if sandbox.left() else 65534  # our user namespace has one group
    return {"ipv4/ip_unprivileged_port_start": "0", "ipv4/ping_group_range": f"0 {last}"}


def apply(namespace: Namespace, settings: Settings) -> None:
    """Write settings (paths below /proc/sys/net) in a netns. Raises `UnavailableError`."""
    with namespace.entered():
        for name, value in settings.items():
            path = f"/proc/sys/net/{name}"
            try:
                with Path(path).open("r+b", buffering=0) as file:
                    file.write(value.encode("ascii"))
            except OSError as error:
                raise UnavailableError(explain(path, value, error)) from error


def explain(path: str, value: str, error: OSError) -> str:
    foreign = "the netns does not belong to this user namespace; call harness.netns.sandbox.enter() first"
    no_ipv6 = "; is IPv6 disabled (ipv6.disable=1 on the kernel's command line)? Use IPv4 only"
    reasons = {
        errno.EROFS: "/proc/sys is mounted read-only, as in most containers; start the container with --privileged, "
        "or with --security-opt systempaths=unconfined",
        errno.EACCES: foreign,
        errno.EPERM: foreign,
        errno.ENOENT: "this kernel does not have this setting" + (no_ipv6 if "/ipv6/" in path else ""),
    }
    reason = reasons.get(error.errno or 0, error.strerror)
    return f"cannot write {value!r} to {path} in a network namespace of our own: {reason}"
