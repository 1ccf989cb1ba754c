"""Builds a node image: gathers what it is made of, and lets the engine put it together.

An image is named for its version, and labelled with a digest of all that it is made of. What has the same digest is not
built again. What is under way lies in one folder that the next build empties, and in images of the engine with a label
of ours, which each build removes: nothing is left of one that was killed, once another has run.
"""

from __future__ import annotations

import hashlib
import io
import json
import os
import subprocess
import tarfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from harness.backends.any_cluster import pods
from harness.backends.kind.engine import ContainerEngine
from harness.backends.kind.node_image import contents, debian, layers, parts, userland
from harness.binaries import source
from harness.binaries.cache import Cache
from harness.binaries.component import COREDNS, ETCD, KIND, component_named
from harness.binaries.fetching import FromSource, fetch
from harness.binaries.go import Go
from harness.binaries.versions import Version, Wanted, parse_wanted
from harness.binaries.watching import Watcher
from harness.errors import UnavailableError, UsageError
from harness.model.files import sha256_of

REPOSITORY = "trafficdist.dev/kind-node"
LABEL = "dev.trafficdist.node-image"
_STEP = f"{LABEL}.step"
_BUILD_SECONDS = 1800.0
_USERLAND = ("conntrack", "dash", "ipset", "iptables", "kmod", "nftables")
_SCRIPTS = ("usr/local/bin/", "kind/bin/")  # kind's files that are programs: a module's files have no such mode


@dataclass(frozen=True, slots=True)
class Recipe:
    """What is wanted: the release, other releases whose components come along, and Debian's suite and mirror."""

    kubernetes: Wanted
    also: tuple[Wanted, ...] = ()
    suite: str = "bookworm"
    mirror: str = ""
    again: bool = False


@dataclass(frozen=True, slots=True)
class Gathered:
    """All that a node image is made of."""

    version: Version
    images: tuple[layers.Image, ...]
    node: Mapping[str, Path]  # programs, by their path on the node
    texts: Mapping[str, str]
    kind: Path
    base: Path
    notes: tuple[str, ...]


class Maker:
    """Makes node images with one engine, Go and cache."""

    def __init__(self, engine: ContainerEngine, go: Go, cache: Cache, watcher: Watcher, files: Path) -> None:
        """`files` is the folder kind-configs/node-image."""
        self._engine = engine
        self._go = go
        self._cache = cache
        self._watcher = watcher
        self._files = files

    def make(self, recipe: Recipe) -> tuple[str, tuple[str, ...]]:
        """Return the name of the image for a recipe, and notes of what stands in for what; built unless it is there.

        Raises `UsageError`, `UnavailableError`.
        """
        gathered = self.gather(recipe)
        name = f"{REPOSITORY}:{gathered.version.tag}"
        digest = self._digest(gathered)
        if label_of(self._engine, name) == digest:
            self._watcher.say(f"{name} is there, made of the same")
        else:
            self._watcher.say(f"{name}: building the image")
            self._build(gathered, name, digest)
        return name, gathered.notes

    def gather(self, recipe: Recipe) -> Gathered:
        """Get and compile all that the image is made of."""
        kubelet, version = self._component("kubelet", recipe.kubernetes)
        same = Wanted(str(version), exact=version)
        kubeadm, _ = self._component("kubeadm", same)
        kubectl, _ = self._component("kubectl", same)
        listed = contents.parse_list(_run(kubeadm, "config", "images", "list", "--kubernetes-version", version.tag))
        made = {part.binary.name: parts.get(part, version, self._go, self._cache, self._watcher)
                for part in parts.parts(self._files)}  # fmt: skip
        base = debian.file_system(
            debian.packages(self._files), suite=recipe.suite, mirror=recipe.mirror,
            cache=self._cache, watcher=self._watcher, again=recipe.again,
        )  # fmt: skip
        with tarfile.open(base) as archive:
            under = layers.layer(userland.take(archive, _USERLAND))
        notes: list[str] = []
        images = [self._image(each, version, made, under, notes) for each in listed]
        for wanted in recipe.also:
            images += self._also(wanted, listed, under)
        agnhost = pods.image()
        tagged, _, digest = agnhost.partition("@")
        names = (tagged, f"{tagged.rpartition(':')[0]}@{digest}")
        images.append(layers.Image(names, {"/agnhost": made["agnhost"]}, ("/agnhost",)))
        podroutes = "/usr/local/bin/podroutes"
        images.append(layers.Image((contents.PODROUTES,), {podroutes: made["podroutes"]}, (podroutes,), under))
        notes += [
            f"podroutes stands in for kindnetd, pause for Kubernetes' own; {tagged} is agnhost of Kubernetes {version}"
        ]
        kind = self._kind_files()
        texts = {
            "kind/version": version.tag,
            "kind/manifests/default-cni.yaml": self._text("default-cni.yaml"),
            "etc/systemd/system/containerd.service.d/10-oom.conf": self._text("containerd-oom.conf"),
            "node-image/setup": self._text("setup"),
            "node-image/pause": next(each.image for each in listed if each.program == "pause"),
        }
        node = {
            "usr/bin/kubelet": kubelet,
            "usr/bin/kubeadm": kubeadm,
            "usr/bin/kubectl": kubectl,
            "usr/local/bin/crictl": made["crictl"],
        }
        return Gathered(version, tuple(images), node, texts, kind, base, tuple(notes))

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
            raise UsageError(f"kubeadm {version} wants image {named.image}, which cannot be made")
        taken = contents.nearest(named.exact, source.available(known, self._go))
        path, got = self._component(named.program, Wanted(str(taken), exact=taken) if taken else parse_wanted(""))
        if got != named.exact:
            notes.append(f"{named.image} is {named.program} {got}: {named.exact} is not to be had as a module")
        if known is COREDNS:
            return layers.Image((named.image,), {"/coredns": path}, ("/coredns",))
        return _own(named.image, named.program, path)

    def _also(self, wanted: Wanted, listed: Sequence[contents.Named], under: bytes) -> list[layers.Image]:
        images = []
        for program in contents.REPLACED:
            path, version = self._component(program, wanted)
            image = contents.image_of_release(listed, program, version)
            images.append(_own(image, program, path, under if program == "kube-proxy" else None))
        return images

    def _component(self, name: str, wanted: Wanted) -> tuple[Path, Version]:
        entry = fetch(component_named(name), wanted, FromSource(lambda: self._go), self._cache, self._watcher)
        return entry.path, entry.version

    def _kind_files(self) -> Path:
        """Return the folder images/base/files of kind's newest module."""
        release = source.resolve(KIND, parse_wanted(""), self._go, self._watcher)
        got = self._go.ask_json("mod", "download", "-json", f"{KIND.module}@{release.version.tag}", folder=Path("/"))
        folder = Path(got["Dir"]) / "images" / "base" / "files"
        if not folder.is_dir():
            raise UnavailableError(f"kind {release.version} has no folder images/base/files any more: {got['Dir']}")
        return folder

    def _text(self, name: str) -> str:
        return (self._files / name).read_text(encoding="utf-8")

    def _digest(self, gathered: Gathered) -> str:
        digest = hashlib.sha256()
        digest.update(json.dumps(dict(gathered.texts), sort_keys=True).encode())
        digest.update((self._text("Dockerfile")).encode())
        for path, file in sorted(gathered.node.items()):
            digest.update(f"{path} {sha256_of(file)}\n".encode())
        for image in gathered.images:
            for path, file in sorted(image.programs.items()):
                digest.update(f"{image.names} {path} {sha256_of(file)} {image.entrypoint}\n".encode())
            digest.update(image.under or b"")
        stat = gathered.base.stat()  # a new one is a new file; to read it all takes a second
        digest.update(f"{gathered.kind} {gathered.base} {stat.st_size} {stat.st_mtime_ns}".encode())
        return digest.hexdigest()

    def _build(self, gathered: Gathered, name: str, digest: str) -> None:
        waiting = f"{name}: another process builds one; waiting for that"
        with self._cache.locked("node-image", gathered.version, waiting=lambda: self._watcher.say(waiting)):
            folder = self._cache.workspace("node-image", gathered.version, "build")
            self._cache.close_workspace(folder)
            folder = self._cache.workspace("node-image", gathered.version, "build")
            try:
                self._write_context(gathered, folder)
                self._engine.ask(
                    "build", "--network", "none", "--force-rm", "--no-cache",
                    "--label", f"{LABEL}={digest}", "--tag", name, str(folder),
                    seconds=_BUILD_SECONDS,
                )  # fmt: skip
            finally:
                self._cache.close_workspace(folder)
                for label in (_STEP, LABEL):  # those without a name: steps, and what this image takes the name of
                    self._engine.ask("image", "prune", "--force", "--filter", f"label={label}")

    def _write_context(self, gathered: Gathered, folder: Path) -> None:
        try:
            os.link(gathered.base, folder / "base.tar")
        except OSError as error:
            raise UnavailableError(f"{folder} cannot be written: {error.strerror}") from None
        (folder / "Dockerfile").write_text(self._text("Dockerfile"), encoding="utf-8")
        images = folder.with_suffix(".images")
        layers.write(gathered.images, images)
        try:
            with tarfile.open(folder / "node.tar", "w") as archive:
                for path, file in sorted(_under(gathered.kind)):
                    _add(archive, path, file, 0o755 if path.startswith(_SCRIPTS) else 0o644)
                for path, file in sorted(gathered.node.items()):
                    _add(archive, path, file, 0o755)
                for path, text in sorted(gathered.texts.items()):
                    member = tarfile.TarInfo(path)
                    member.size = len(text.encode())
                    archive.addfile(member, io.BytesIO(text.encode()))
                _add(archive, "node-image/images.tar", images, 0o644)
        finally:
            images.unlink()


def label_of(engine: ContainerEngine, name: str) -> str:
    """Return the digest of what an image of that name is made of; "" if there is none."""
    try:
        return engine.ask("image", "inspect", "--format", f'{{{{index .Config.Labels "{LABEL}"}}}}', name).strip()
    except UnavailableError:
        return ""


def _own(image: str, program: str, path: Path, under: bytes | None = None) -> layers.Image:
    return layers.Image((image,), {f"/usr/local/bin/{program}": path}, (), under)


def _under(folder: Path) -> list[tuple[str, Path]]:
    return [(str(file.relative_to(folder)), file) for file in folder.rglob("*") if file.is_file()]


def _add(archive: tarfile.TarFile, path: str, file: Path, mode: int) -> None:
    member = archive.gettarinfo(file, path)
    member.mode, member.uid, member.gid, member.uname, member.gname = mode, 0, 0, "", ""
    with file.open("rb") as content:
        archive.addfile(member, content)


def _run(binary: Path, *arguments: str) -> str:
    done = subprocess.run([str(binary), *arguments], capture_output=True, text=True, check=False)  # noqa: S603
    if done.returncode != 0:
        raise UnavailableError(f"{binary.name} {' '.join(arguments)} failed:\n{done.stderr.strip()[-600:]}")
    return done.stdout
