"""Write container images into one archive in the OCI image layout, for `ctr images import`.

Archives are reproducible byte by byte: no timestamps, and root owns every file. Source:
https://github.com/opencontainers/image-spec/blob/v1.1.0/image-layout.md
"""

import gzip
import hashlib
import io
import json
import tarfile
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

NAME = "io.containerd.image.name"  # the annotation from which containerd's import takes the name
_INDEX = "application/vnd.oci.image.index.v1+json"
_MANIFEST = "application/vnd.oci.image.manifest.v1+json"
_CONFIG = "application/vnd.oci.image.config.v1+json"
_LAYER = "application/vnd.oci.image.layer.v1.tar+gzip"
_PATH = "PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"


@dataclass(frozen=True, slots=True)
class Image:
    """An image: its names, its programs by path in the image, and the base layer that it shares with others, if any."""

    names: tuple[str, ...]
    programs: Mapping[str, Path]
    entrypoint: tuple[str, ...] = ()
    under: bytes | None = None


def layer(members: Iterable[tuple[tarfile.TarInfo, bytes]]) -> bytes:
    written = io.BytesIO()
    with tarfile.open(fileobj=written, mode="w", format=tarfile.PAX_FORMAT) as archive:
        for member, content in members:
            archive.addfile(member, io.BytesIO(content))
    return written.getvalue()


def program(path: str, content: bytes) -> tuple[tarfile.TarInfo, bytes]:
    member = tarfile.TarInfo(path.lstrip("/"))
    member.size, member.mode = len(content), 0o755
    return member, content


def write(images: Sequence[Image], target: Path) -> None:
    with tarfile.open(target, mode="w", format=tarfile.PAX_FORMAT) as archive:
        written = _Blobs(archive)
        described = [each for image in images for each in _describe(image, written)]
        index = {"schemaVersion": 2, "mediaType": _INDEX, "manifests": described}
        add(archive, "index.json", _json(index))
        add(archive, "oci-layout", _json({"imageLayoutVersion": "1.0.0"}))


class _Blobs:
    def __init__(self, archive: tarfile.TarFile) -> None:
        self._archive = archive
        self._there: set[str] = set()
        self._packed: dict[str, tuple[dict[str, Any], str]] = {}

    def add(self, content: bytes, media_type: str) -> dict[str, Any]:
        digest = hashlib.sha256(content).hexdigest()
        if digest not in self._there:
            self._there.add(digest)
            add(self._archive, f"blobs/sha256/{digest}", content)
        return {"mediaType": media_type, "digest": f"sha256:{digest}", "size": len(content)}

    def add_layer(self, content: bytes) -> tuple[dict[str, Any], str]:
        """Return the layer's descriptor and the digest of the uncompressed layer."""
        plain = f"sha256:{hashlib.sha256(content).hexdigest()}"
        if plain not in self._packed:
            self._packed[plain] = self.add(gzip.compress(content, compresslevel=1, mtime=0), _LAYER), plain
        return self._packed[plain]


def _describe(image: Image, written: _Blobs) -> list[dict[str, Any]]:
    own = layer(program(path, file.read_bytes()) for path, file in sorted(image.programs.items()))
    layers = [written.add_layer(each) for each in (image.under, own) if each is not None]
    config = {
        "architecture": "amd64",
        "os": "linux",
        "config": {"Env": [_PATH], **({"Entrypoint": list(image.entrypoint)} if image.entrypoint else {})},
        "rootfs": {"type": "layers", "diff_ids": [plain for _, plain in layers]},
    }
    manifest = {
        "schemaVersion": 2,
        "mediaType": _MANIFEST,
        "config": written.add(_json(config), _CONFIG),
        "layers": [packed for packed, _ in layers],
    }
    described = written.add(_json(manifest), _MANIFEST)
    platform = {"platform": {"architecture": "amd64", "os": "linux"}}
    return [{**described, **platform, "annotations": {NAME: name}} for name in image.names]


def add(archive: tarfile.TarFile, name: str, content: bytes) -> None:
    member = tarfile.TarInfo(name)
    member.size = len(content)
    archive.addfile(member, io.BytesIO(content))


def _json(value: Any) -> bytes:
    return json.dumps(value, separators=(",", ":")).encode()
