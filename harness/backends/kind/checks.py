"""Checks that this machine has the command, the container engine and the resources that a kind cluster needs."""

import platform
import re
import shutil
import subprocess
from dataclasses import dataclass
from pathlib import Path

from harness.backends.containers.engine import ContainerEngine, EngineFacts, find_engine
from harness.backends.kind.config import CONTROL_PLANE, KindConfig, version_of_image
from harness.binaries import find
from harness.binaries.component import KIND, version_of
from harness.binaries.versions import Version
from harness.errors import UnavailableError
from harness.model import package_extras

OLDEST_KIND = Version(0, 23, 0)  # the first version that supports nftables mode
OLDEST_ENGINES = {"docker": (20, 10), "podman": (4, 0)}
_NFTABLES_KERNEL = (5, 13)
_NEEDS_CGROUP_2 = Version(1, 35, 0)  # from this version on, a kubelet does not start on cgroup v1
_OLD = Version(1, 0, 0)
_DISK = 4_000_000_000  # bytes; an unpacked node image needs 1 GB, and each node about 300 MB
_MEMORY_PER_NODE = 500_000_000
_INSTANCES_PER_NODE = 40  # inotify instances of one node: systemd, containerd, kubelet and kube-proxy
_INOTIFY = "fs/inotify/max_user_instances"


@dataclass(frozen=True, slots=True)
class KindTools:
    kind: Path
    kind_version: Version
    engine: ContainerEngine
    facts: EngineFacts
    notes: tuple[str, ...] = ()


def require(wanted: KindConfig) -> KindTools:
    package_extras.require("kubernetes", extra="kind", feature="--backend kind")
    kind, version = find_kind()
    engine = find_engine()
    facts = engine.facts()
    check_engine(engine.name, facts, wanted)
    if wanted.mode == "ipvs" and _numbers(facts.kernel) == _numbers(platform.release()) and not has_ip_vs():
        raise UnavailableError(
            "kube-proxy's IPVS mode needs the kernel module ip_vs, which this machine lacks; load it (`sudo modprobe "
            "ip_vs`), or use nftables mode"
        )
    nodes = len(wanted.topology.nodes) + 1
    return KindTools(kind, version, engine, facts, tuple(notes(facts, nodes)))


def find_kind() -> tuple[Path, Version]:
    """Find the kind command on the PATH or in the cache of components. Raises `UnavailableError`."""
    on_path = shutil.which("kind")
    try:
        path = Path(on_path) if on_path else find("kind")
    except UnavailableError:
        raise UnavailableError(
            "there is no `kind` on the PATH; get it with `trafficdist components fetch kind` (or add --from source), "
            "or from https://kind.sigs.k8s.io"
        ) from None
    version = version_of(KIND, path)
    if version < OLDEST_KIND:
        raise UnavailableError(
            f"{path} is kind {version}, and {OLDEST_KIND} is the oldest supported version; get a newer one with "
            "`trafficdist components fetch kind`, and remove the old one from the PATH"
        )
    return path, version


def check_engine(name: str, facts: EngineFacts, wanted: KindConfig) -> None:
    """Raise `UnavailableError` if the engine, kernel or cgroup version is too old, or too little disk space is free."""
    oldest = OLDEST_ENGINES[name]
    if _numbers(facts.version) < oldest:
        raise UnavailableError(
            f"{name} {facts.version} is too old: kind needs {'.'.join(map(str, oldest))} or newer; update it"
        )
    if wanted.mode == "nftables" and _numbers(facts.kernel) < _NFTABLES_KERNEL:
        raise UnavailableError(
            f"kube-proxy's nftables mode needs Linux 5.13 or newer, and {name} runs on {facts.kernel}; use iptables "
            "mode, or a newer kernel"
        )
    image = wanted.images.get(CONTROL_PLANE, "")  # without an image kind uses its default, a recent image
    if facts.cgroup == "1" and (not image or (version_of_image(image) or _OLD) >= _NEEDS_CGROUP_2):
        raise UnavailableError(
            f"kubelets of Kubernetes {_NEEDS_CGROUP_2.series} and newer do not start on cgroup v1, which this machine "
            "has; boot it with systemd.unified_cgroup_hierarchy=1, or choose an older node image (--kind-image)"
        )
    root = Path(facts.root)
    if facts.root and root.exists() and shutil.disk_usage(root).free < _DISK:
        free = shutil.disk_usage(root).free
        raise UnavailableError(
            f"only {free / 1e9:.1f} GB are free in {root}, where {name} stores images and containers; a cluster needs "
            f"{_DISK / 1e9:.0f} GB; free some space (`{name} system df` shows what uses it)"
        )


def notes(facts: EngineFacts, nodes: int, *, proc_sys: Path = Path("/proc/sys")) -> list[str]:
    """Return a note, with a fix, for each resource that is too scarce for this number of nodes."""
    found = []
    if 0 < facts.memory < nodes * _MEMORY_PER_NODE:
        found.append(
            f"{nodes} nodes need about {nodes * _MEMORY_PER_NODE / 1e9:.1f} GB of memory, and there are "
            f"{facts.memory / 1e9:.1f} GB: give the engine more, or use fewer nodes (--topology a=1,b=1,c=1)"
        )
    instances = _number_in(proc_sys / _INOTIFY)
    if 0 < instances < nodes * _INSTANCES_PER_NODE:
        found.append(
            f"{nodes} nodes need about {nodes * _INSTANCES_PER_NODE} inotify instances, and there are {instances}: "
            f"`sudo sysctl {_INOTIFY.replace('/', '.')}=512`"
        )
    return found


def has_ip_vs() -> bool:
    """Return whether this kernel has IPVS or can load it. A container cannot load a module that the host lacks."""
    if Path("/sys/module/ip_vs").exists() or Path("/proc/net/ip_vs").exists():
        return True
    modprobe = shutil.which("modprobe", path="/usr/sbin:/sbin:/usr/bin:/bin")
    if modprobe is None:
        return False
    return subprocess.run([modprobe, "-n", "-q", "ip_vs"], check=False, timeout=10).returncode == 0  # noqa: S603


def _number_in(path: Path) -> int:
    try:
        return int(path.read_text(encoding="ascii"))
    except (OSError, ValueError):
        return 0


def _numbers(version: str) -> tuple[int, ...]:
    found = re.match(r"(\d+)\.(\d+)", version)
    return (int(found[1]), int(found[2])) if found else (0, 0)
