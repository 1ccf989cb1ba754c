"""Build a node image with the container engine, unless an image with the same digest of its parts exists."""

import hashlib
import json
import os
import shutil
import tarfile
from pathlib import Path

from harness.backends.containers.engine import ContainerEngine, find_engine
from harness.binaries.cache import Cache, explained_errors
from harness.binaries.progress import Reporter
from harness.binaries.versions import Version, VersionSpec, parse_version
from harness.errors import UnavailableError
from harness.model.files import sha256_of
from tools.compiling.source import FromSource
from tools.node_image import contents, layers
from tools.node_image.collect import FILES, Collector, ImageParts, ImageRecipe

REPOSITORY = "trafficdist.dev/kind-node"
LABEL = "dev.trafficdist.node-image"
_STEP = f"{LABEL}.step"
_BUILD_SECONDS = 1800.0
_RUNTIME = "runc-without-sys-resource"
_SCRIPTS = ("usr/local/bin/", "kind/bin/")  # kind's executable files, as a Go module keeps no file modes


def make(recipe: ImageRecipe, *, cache: Cache, watcher: Reporter, jobs: int = 0) -> str:
    """Return the name of the image. Build the image unless it exists. Raises `UsageError` or `UnavailableError`."""
    contents.check(recipe.kubernetes)
    engine = find_engine()
    engine.facts()  # check the engine before hours of work
    parts = Collector(FromSource(jobs), cache, watcher).collect(recipe)
    name = ImageBuilder(engine, cache, watcher).build(parts)
    for note in parts.notes:
        watcher.say(f"note: {note}")
    return name


def find_image(wanted: VersionSpec) -> str:
    """Return the name of the latest image in the engine for this release. Raises `UnavailableError`."""
    tags = find_engine().ask("image", "ls", "--format", "{{.Tag}}", REPOSITORY).split()
    chosen = wanted.choose(version for tag in tags if (version := parse_version(tag)))
    if not chosen:
        raise UnavailableError(
            f"the engine has no node image of Kubernetes {wanted}: run `make kind-image KUBERNETES={wanted}`"
        )
    return f"{REPOSITORY}:{chosen[0].tag}"


def put_runtime(folder: Path) -> str:
    """Copy the runtime for engines without CAP_SYS_RESOURCE into a folder. Return instructions for its use."""
    target = folder.absolute() / _RUNTIME
    with explained_errors(target):
        target.parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(FILES / _RUNTIME, target)
        target.chmod(0o755)
    name = _RUNTIME.removeprefix("runc-")
    return f"start the engine with: dockerd --add-runtime {name}={target} --default-runtime {name}"


class ImageBuilder:
    def __init__(self, engine: ContainerEngine, cache: Cache, watcher: Reporter) -> None:
        self._engine, self._cache, self._watcher = engine, cache, watcher
        self._dockerfile = (FILES / "Dockerfile").read_text(encoding="utf-8")

    def build(self, parts: ImageParts) -> str:
        name = f"{REPOSITORY}:{parts.version.tag}"
        digest = self._digest(parts)
        waiting = f"{name}: waiting for another process that builds an image"
        # Only one build at a time, of any version, because `_clear` cannot distinguish the steps of two builds.
        with self._cache.locked("node-image", waiting=lambda: self._watcher.say(waiting)):
            self._clear(parts.version)
            if self._label_of(name) == digest:
                self._watcher.say(f"{name} already exists with the same parts")
            else:
                self._watcher.say(f"{name}: building the image")
                self._build(parts, name, digest)
        return name

    def _label_of(self, name: str) -> str:
        label = f'{{{{index .Config.Labels "{LABEL}"}}}}'
        try:
            return self._engine.ask("image", "inspect", "--format", label, name).strip()
        except UnavailableError:
            return ""

    def _digest(self, parts: ImageParts) -> str:
        digest = hashlib.sha256()
        digest.update(json.dumps(dict(parts.texts), sort_keys=True).encode())
        digest.update(self._dockerfile.encode())
        for path, file in sorted(parts.node.items()):
            digest.update(f"{path} {sha256_of(file)}\n".encode())
        for image in parts.images:
            for path, file in sorted(image.programs.items()):
                digest.update(f"{image.names} {path} {sha256_of(file)} {image.entrypoint}\n".encode())
            digest.update(image.under or b"")
        stat = parts.base.stat()  # a new archive has another size or time; hashing it takes a second
        digest.update(f"{parts.kind} {parts.base} {stat.st_size} {stat.st_mtime_ns}".encode())
        return digest.hexdigest()

    def _build(self, parts: ImageParts, name: str, digest: str) -> None:
        folder = self._cache.workspace("node-image", parts.version, "build")
        try:
            self._write_context(parts, folder)
            self._engine.ask(
                "build", "--network", "none", "--force-rm", "--no-cache",
                "--label", f"{LABEL}={digest}", "--tag", name, str(folder),
                seconds=_BUILD_SECONDS,
            )  # fmt: skip
        finally:
            self._clear(parts.version)

    def _clear(self, version: Version) -> None:
        """Remove the remains of a build: its folder, and the unnamed images of its steps and of the previous build."""
        shutil.rmtree(self._cache.workspace("node-image", version, "build"), ignore_errors=True)
        for label in (_STEP, LABEL):
            self._engine.ask("image", "prune", "--force", "--filter", f"label={label}")

    def _write_context(self, parts: ImageParts, folder: Path) -> None:
        try:
            os.link(parts.base, folder / "base.tar")
        except OSError as error:
            raise UnavailableError(f"{folder} cannot be written: {error.strerror}") from None
        (folder / "Dockerfile").write_text(self._dockerfile, encoding="utf-8")
        images = folder / "images.tar"
        layers.write(parts.images, images)
        with tarfile.open(folder / "node.tar", "w") as archive:
            for file in sorted(each for each in parts.kind.rglob("*") if each.is_file()):
                path = str(file.relative_to(parts.kind))
                _add(archive, path, file, 0o755 if path.startswith(_SCRIPTS) else 0o644)
            for path, file in sorted(parts.node.items()):
                _add(archive, path, file, 0o755)
            for path, text in sorted(parts.texts.items()):
                layers.add(archive, path, text.encode())
            _add(archive, "node-image/images.tar", images, 0o644)
        images.unlink()  # otherwise Docker sends the file to the engine twice


def _add(archive: tarfile.TarFile, path: str, file: Path, mode: int) -> None:
    member = archive.gettarinfo(file, path)
    member.mode, member.uid, member.gid, member.uname, member.gname = mode, 0, 0, "", ""
    with file.open("rb") as content:
        archive.addfile(member, content)
