"""Write image archives that containerd can import."""

import gzip
import hashlib
import io
import json
import tarfile
from pathlib import Path

from tools.node_image.layers import NAME, Image, layer, program, write


def _written(tmp_path: Path, *images: Image) -> dict[str, bytes]:
    write(images, tmp_path / "images.tar")
    with tarfile.open(tmp_path / "images.tar") as archive:
        return {member.name: archive.extractfile(member).read() for member in archive}  # type: ignore[union-attr]


def _blob(written: dict[str, bytes], descriptor: dict[str, str]) -> bytes:
    content = written[f"blobs/sha256/{descriptor['digest'].removeprefix('sha256:')}"]
    assert f"sha256:{hashlib.sha256(content).hexdigest()}" == descriptor["digest"]
    return content


def _program(tmp_path: Path, text: str = "proxy") -> Path:
    (tmp_path / text).write_text(text)
    return tmp_path / text


def test_image_has_its_program_at_the_requested_path(tmp_path: Path) -> None:
    image = Image(("example/proxy:1",), {"/usr/local/bin/proxy": _program(tmp_path)}, ("/usr/local/bin/proxy",))
    written = _written(tmp_path, image)
    (listed,) = json.loads(written["index.json"])["manifests"]
    manifest = json.loads(_blob(written, listed))
    config = json.loads(_blob(written, manifest["config"]))
    unpacked = gzip.decompress(_blob(written, manifest["layers"][0]))
    assert config["config"]["Entrypoint"] == ["/usr/local/bin/proxy"]
    assert config["rootfs"]["diff_ids"] == [f"sha256:{hashlib.sha256(unpacked).hexdigest()}"]
    with tarfile.open(fileobj=io.BytesIO(unpacked)) as archive:
        (member,) = archive.getmembers()
        assert (member.name, member.mode, member.uid) == ("usr/local/bin/proxy", 0o755, 0)


def test_all_names_of_an_image_refer_to_the_same_manifest(tmp_path: Path) -> None:
    written = _written(tmp_path, Image(("a:1", "a@sha256:12"), {"/a": _program(tmp_path)}))
    listed = json.loads(written["index.json"])["manifests"]
    assert [each["annotations"][NAME] for each in listed] == ["a:1", "a@sha256:12"]
    assert len({each["digest"] for each in listed}) == 1


def test_shared_layer_is_stored_once(tmp_path: Path) -> None:
    under = layer([program("/usr/sbin/nft", b"nft")])
    one = Image(("a:1",), {"/a": _program(tmp_path, "a")}, under=under)
    other = Image(("b:1",), {"/b": _program(tmp_path, "b")}, under=under)
    written = _written(tmp_path, one, other)
    manifests = [json.loads(_blob(written, each)) for each in json.loads(written["index.json"])["manifests"]]
    assert manifests[0]["layers"][0] == manifests[1]["layers"][0]
    assert len([name for name in written if name.startswith("blobs/")]) == 3 + 2 + 2  # layers, configs, manifests


def test_archive_is_reproducible(tmp_path: Path) -> None:
    image = Image(("a:1",), {"/a": _program(tmp_path)})
    write([image], tmp_path / "one.tar")
    write([image], tmp_path / "two.tar")
    assert (tmp_path / "one.tar").read_bytes() == (tmp_path / "two.tar").read_bytes()
