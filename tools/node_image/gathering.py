"""Collect the parts of a node image: compiled programs and Debian's file system. The cache is used if possible."""

import subprocess
import tarfile
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from harness.backends.any_cluster import pods
from harness.binaries.cache import Cache
from harness.binaries.component import COREDNS, ETCD, KIND, Binary, component_named
from harness.binaries.fetching import fetch
from harness.binaries.versions import Version, Wanted, parse_wanted
from harness.binaries.watching import Watcher
from harness.errors import UnavailableError, UsageError
from tools.compiling import source
from tools.compiling.from_source import FromSource
from tools.compiling.go import Go
from tools.node_image import contents, debian, layers, parts, userland

_PROXY = ("conntrack", "dash", "ipset", "iptables", "kmod", "nftables")
_SHELL = ("coreutils", "dash")  # version of the agnhost image that client pods use


@dataclass(frozen=True, slots=True)
class Recipe:
    """The requested image: the release, further releases with their components, and Debian's suite and mirror."""

    kubernetes: Wanted
    also: tuple[Wanted, ...] = ()
    suite: str = "bookworm"
    mirror: str = ""
    again: bool = False


@dataclass(frozen=True, slots=True)
class Gathered:
    """All parts of a node image."""

    version: Version
    images: tuple[layers.Image, ...]
    node: Mapping[str, Path]  # programs by path on the node
    texts: Mapping[str, str]
    kind: Path
    base: Path
    notes: tuple[str, ...]


class Gatherer:
    """Collects and compiles parts with one Go installation and one cache."""

    def __init__(self, go: Go, cache: Cache, watcher: Watcher, files: Path) -> None:
        """`files` is the folder kind-configs/node-image."""
        self._go = go
        self._cache = cache
        self._watcher = watcher
        self._files = files

    def gather(self, recipe: Recipe) -> Gathered:
        """Return all parts of the image. Raises `UsageError`, `UnavailableError`."""
        kubelet, version = self._component("kubelet", recipe.kubernetes)
        same = Wanted(str(version), exact=version)
        kubeadm, _ = self._component("kubeadm", same)
        kubectl, _ = self._component("kubectl", same)
        listed = contents.parse_list(_run(kubeadm, "config", "images", "list", "--kubernetes-version", version.tag))
        made = {
            part.binary.name: parts.get(part, version, self._go, self._cache, self._watcher)
            for part in parts.parts(self._files)
        }
        base = debian.file_system(
            debian.packages(self._files), suite=recipe.suite, mirror=recipe.mirror,
            cache=self._cache, watcher=self._watcher, again=recipe.again,
        )  # fmt: skip
        with tarfile.open(base) as archive:
            under, shell = (layers.layer(userland.take(archive, each)) for each in (_PROXY, _SHELL))
        notes: list[str] = []
        images = [self._image(each, version, made, under, notes) for each in listed]
        images += [image for wanted in recipe.also for image in self._also(wanted, listed, under)]
        images += _ours(made, under, shell)
        notes.append(f"podroutes replaces kindnetd, our pause replaces Kubernetes' pause; agnhost is that of {version}")
        pause = next(each.image for each in listed if each.program == "pause")
        node = {
            "usr/bin/kubelet": kubelet,
            "usr/bin/kubeadm": kubeadm,
            "usr/bin/kubectl": kubectl,
            "usr/local/bin/crictl": made["crictl"],
        }
        texts = self._texts(version, pause)
        return Gathered(version, tuple(images), node, texts, self._kind_files(), base, tuple(notes))

    def _texts(self, version: Version, pause: str) -> dict[str, str]:
        def text(name: str) -> str:
            return (self._files / name).read_text(encoding="utf-8")

        return {
            "kind/version": version.tag,
            "kind/manifests/default-cni.yaml": text("default-cni.yaml"),
            "etc/systemd/system/containerd.service.d/10-oom.conf": text("containerd-oom.conf"),
            "node-image/setup": text("setup"),
            "node-image/pause": pause,
        }

    def _image(
        self, named: contents.Named, version: Version, made: Mapping[str, Path], under: bytes, notes: list[str]
    ) -> layers.Image:
        if named.program in contents.SYSTEM:
            path, _ = self._component(named.program, Wanted(str(version), exact=version))
            return _own(named.image, named.program, path, under if named.program == "kube-proxy" else None)
        if named.program == "pause":
            return layers.Image((named.image,), {"/pause": made["pause"]}, ("/pause",))
        known = {ETCD.name: ETCD, COREDNS.name: COREDNS}.get(named.program)
        if known is None or named.exact is None:
            raise UsageError(f"kubeadm {version} needs image {named.image}, which cannot be built")
        taken = contents.nearest(named.exact, self._available(known))
        path, got = self._component(named.program, Wanted(str(taken), exact=taken) if taken else parse_wanted(""))
        if got != named.exact:
            notes.append(f"{named.image} is {named.program} {got}: {named.exact} is not available as a module")
        if known is COREDNS:
            return layers.Image((named.image,), {"/coredns": path}, ("/coredns",))
        return _own(named.image, named.program, path)

    def _also(self, wanted: Wanted, listed: Sequence[contents.Named], under: bytes) -> Iterator[layers.Image]:
        for program in contents.REPLACED:
            path, version = self._component(program, wanted)
            image = contents.image_of_release(listed, program, version)
            yield _own(image, program, path, under if program == "kube-proxy" else None)

    def _component(self, name: str, wanted: Wanted) -> tuple[Path, Version]:
        entry = fetch(component_named(name), wanted, FromSource(lambda: self._go), self._cache, self._watcher)
        return entry.path, entry.version

    def _available(self, component: Binary) -> list[Version]:
        """Return the available versions, or the cached versions if the module proxy is unavailable."""
        try:
            return source.available(component, self._go)
        except UnavailableError:
            there = [entry.version for entry in self._cache.entries(component.name)]
            if not there:
                raise
            return there

    def _kind_files(self) -> Path:
        """Return the folder images/base/files of kind's latest module."""
        try:
            version = source.resolve(KIND, parse_wanted(""), self._go, self._watcher).version
        except UnavailableError:
            version = max(self._available(KIND))  # of the cache; Go has its module, too
        got = self._go.ask_json("mod", "download", "-json", f"{KIND.module}@{version.tag}", folder=Path("/"))
        folder = Path(got["Dir"]) / "images" / "base" / "files"
        if not folder.is_dir():
            raise UnavailableError(f"kind {version} no longer has a folder images/base/files: {got['Dir']}")
        return folder


def _ours(made: Mapping[str, Path], under: bytes, shell: bytes) -> Iterator[layers.Image]:
    tagged, _, digest = pods.image().partition("@")
    agnhost = (tagged, f"{tagged.rpartition(':')[0]}@{digest}")  # CRI prefers the second name
    yield layers.Image(agnhost, {"/agnhost": made["agnhost"]}, ("/agnhost",), shell)
    podroutes = "/usr/local/bin/podroutes"
    yield layers.Image((contents.PODROUTES,), {podroutes: made["podroutes"]}, (podroutes,), under)


def _own(image: str, program: str, path: Path, under: bytes | None = None) -> layers.Image:
    return layers.Image((image,), {f"/usr/local/bin/{program}": path}, (), under)


def _run(binary: Path, *arguments: str) -> str:
    done = subprocess.run([str(binary), *arguments], capture_output=True, text=True, check=False)  # noqa: S603
    if done.returncode != 0:
        raise UnavailableError(f"{binary.name} {' '.join(arguments)} failed:\n{done.stderr.strip()[-600:]}")
    return done.stdout
