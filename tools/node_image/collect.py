"""Collect the parts of a node image: compiled programs and Debian's file system. Cached parts are reused."""

import hashlib
import re
import subprocess
import tarfile
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from harness.backends.any_cluster import pods
from harness.binaries.cache import Cache
from harness.binaries.component import COREDNS, ETCD, KIND, KUBERNETES_MODULE, Binary, component_named
from harness.binaries.fetching import fetch
from harness.binaries.progress import Reporter
from harness.binaries.versions import Version, VersionSpec, parse_wanted
from harness.errors import UnavailableError, UsageError
from tools.compiling.source import FromSource
from tools.node_image import contents, debian, layers

FILES = Path(__file__).parents[2] / "kind-configs" / "node-image"

_PROXY = ("conntrack", "dash", "ipset", "iptables", "kmod", "nftables")
_SHELL = ("coreutils", "dash")  # packages in the agnhost image, which client pods use
_NO_VERSION = re.compile("")
_CRICTL = Binary("crictl", "sigs.k8s.io/cri-tools", "sigs.k8s.io/cri-tools/cmd/crictl", _NO_VERSION)
_CRICTL_VERSION = Version(1, 34, 0)  # works with containerd 1.6 and newer, and any Kubernetes


@dataclass(frozen=True, slots=True)
class ImageRecipe:
    """The requested image: its Kubernetes release, other releases to include, and Debian's suite and mirror."""

    kubernetes: VersionSpec
    also: tuple[VersionSpec, ...] = ()
    suite: str = "bookworm"
    mirror: str = ""
    again: bool = False


@dataclass(frozen=True, slots=True)
class ImageParts:
    version: Version
    images: tuple[layers.Image, ...]
    node: Mapping[str, Path]  # programs by path on the node
    texts: Mapping[str, str]  # other files by path on the node
    kind: Path
    base: Path
    notes: tuple[str, ...]


class Collector:
    def __init__(self, source: FromSource, cache: Cache, watcher: Reporter) -> None:
        self._source, self._cache, self._watcher = source, cache, watcher

    def collect(self, recipe: ImageRecipe) -> ImageParts:
        """Return all parts of the image. Raises `UsageError` or `UnavailableError`."""
        kubelet, version = self._component("kubelet", recipe.kubernetes)
        same = parse_wanted(str(version))
        kubeadm, _ = self._component("kubeadm", same)
        kubectl, _ = self._component("kubectl", same)
        listed = contents.parse_list(_run(kubeadm, "config", "images", "list", "--kubernetes-version", version.tag))
        base = debian.file_system(
            _text("packages.txt"), suite=recipe.suite, mirror=recipe.mirror,
            cache=self._cache, watcher=self._watcher, again=recipe.again,
        )  # fmt: skip
        with tarfile.open(base) as archive:
            under, shell = (layers.layer(debian.extract(archive, each)) for each in (_PROXY, _SHELL))
        notes: list[str] = []
        images = [self._image(each, version, under, notes) for each in listed]
        images += [image for wanted in recipe.also for image in self._also(wanted, listed, under)]
        images += self._ours(version, under, shell)
        notes.append(f"podroutes replaces kindnetd, our pause replaces Kubernetes' pause; agnhost is that of {version}")
        pause = next(each.image for each in listed if each.program == "pause")
        node = {
            "usr/bin/kubelet": kubelet,
            "usr/bin/kubeadm": kubeadm,
            "usr/bin/kubectl": kubectl,
            "usr/local/bin/crictl": self._compiled(_CRICTL, _CRICTL_VERSION),
        }
        texts = _texts(version, pause)
        return ImageParts(version, tuple(images), node, texts, self._kind_files(), base, tuple(notes))

    def _image(self, listed: contents.ListedImage, version: Version, under: bytes, notes: list[str]) -> layers.Image:
        if listed.program in contents.SYSTEM:
            path, _ = self._component(listed.program, parse_wanted(str(version)))
            return _image_of(listed.image, listed.program, path, under if listed.program == "kube-proxy" else None)
        if listed.program == "pause":
            return layers.Image((listed.image,), {"/pause": self._substitute("pause", version)}, ("/pause",))
        if listed.program not in (ETCD.name, COREDNS.name) or listed.version is None:
            raise UsageError(f"kubeadm {version} needs image {listed.image}, which cannot be built")
        taken = contents.nearest(listed.version, self._available(component_named(listed.program)))
        path, got = self._component(listed.program, parse_wanted(str(taken or "")))
        if got != listed.version:
            notes.append(f"{listed.image} is {listed.program} {got}: {listed.version} is not available as a module")
        if listed.program == COREDNS.name:
            return layers.Image((listed.image,), {"/coredns": path}, ("/coredns",))
        return _image_of(listed.image, listed.program, path)

    def _also(
        self, wanted: VersionSpec, listed: Sequence[contents.ListedImage], under: bytes
    ) -> Iterator[layers.Image]:
        for program in contents.REPLACED:
            path, version = self._component(program, wanted)
            image = contents.image_of_release(listed, program, version)
            yield _image_of(image, program, path, under if program == "kube-proxy" else None)

    def _ours(self, version: Version, under: bytes, shell: bytes) -> Iterator[layers.Image]:
        """Yield the agnhost image of client pods, and the image that replaces kindnetd."""
        tagged, _, digest = pods.image().partition("@")
        names = (tagged, f"{tagged.rpartition(':')[0]}@{digest}")  # CRI prefers the second name
        agnhost, _ = self._component("agnhost", parse_wanted(str(version)))
        yield layers.Image(names, {"/agnhost": agnhost}, ("/agnhost",), shell)
        podroutes = "/usr/local/bin/podroutes"
        program = self._substitute("podroutes", version)
        yield layers.Image((contents.PODROUTES,), {podroutes: program}, (podroutes,), under)

    def _component(self, name: str, wanted: VersionSpec) -> tuple[Path, Version]:
        entry = fetch(component_named(name), wanted, self._source, self._cache, self._watcher)
        return entry.path, entry.version

    def _substitute(self, name: str, version: Version) -> Path:
        """Return our replacement for kindnetd (kind publishes no module of it) or `pause` (Kubernetes' is in C)."""
        return self._compiled(Binary(name, KUBERNETES_MODULE, ".", _NO_VERSION, program=_text(f"{name}.go")), version)

    def _compiled(self, binary: Binary, version: Version) -> Path:
        sources = "\n".join((binary.module, version.tag, binary.package, binary.program))
        name = f"{binary.name}-{hashlib.sha256(sources.encode()).hexdigest()[:12]}"
        path = self._cache.folder / "node-image" / name / binary.name
        waiting = f"{binary.name}: waiting for another process that compiles it"
        with self._cache.locked(name, waiting=lambda: self._watcher.say(waiting)):
            if not path.exists():
                _, make = self._source.resolve(binary, parse_wanted(str(version)), self._watcher)
                folder = self._cache.workspace(name, version, "source")
                path.parent.mkdir(parents=True, exist_ok=True)
                make(folder).binary.rename(path)
                folder.rmdir()
        return path

    def _available(self, component: Binary) -> list[Version]:
        try:
            return self._source.available(component)
        except UnavailableError:
            cached = [entry.version for entry in self._cache.entries(component.name)]
            if not cached:
                raise
            return cached

    def _kind_files(self) -> Path:
        """Return the folder images/base/files of kind's module, at the version of the kind program in the cache."""
        _, version = self._component(KIND.name, parse_wanted(""))
        folder = Path(self._source.download(KIND, version)["Dir"]) / "images" / "base" / "files"
        if not folder.is_dir():
            raise UnavailableError(f"kind {version} no longer has this folder: {folder}")
        return folder


def _texts(version: Version, pause: str) -> dict[str, str]:
    return {
        "kind/version": version.tag,
        "kind/manifests/default-cni.yaml": _text("default-cni.yaml"),
        "etc/systemd/system/containerd.service.d/10-oom.conf": _text("containerd-oom.conf"),
        "node-image/setup": _text("setup"),
        "node-image/pause": pause,
    }


def _text(name: str) -> str:
    return (FILES / name).read_text(encoding="utf-8")


def _image_of(image: str, program: str, path: Path, under: bytes | None = None) -> layers.Image:
    return layers.Image((image,), {f"/usr/local/bin/{program}": path}, (), under)


def _run(binary: Path, *arguments: str) -> str:
    done = subprocess.run([str(binary), *arguments], capture_output=True, text=True, check=False)  # noqa: S603
    if done.returncode != 0:
        raise UnavailableError(f"{binary.name} {' '.join(arguments)} failed:\n{done.stderr.strip()[-600:]}")
    return done.stdout
