"""The commands that build a node image. A fake engine records the commands."""

import tarfile
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from harness.backends.containers.engine import ContainerEngine
from harness.binaries.cache import Cache
from harness.binaries.progress import Reporter
from harness.binaries.versions import Version
from harness.errors import UnavailableError
from tools.node_image.build import LABEL, ImageBuilder
from tools.node_image.collect import ImageParts
from tools.node_image.layers import Image

NAME = "trafficdist.dev/kind-node:v1.34.2"


@dataclass(frozen=True)
class FakeEngine(ContainerEngine):
    """A fake engine that records commands and has at most one image. `sent` are the members of node.tar."""

    label: list[str] = field(default_factory=list)
    asked: list[str] = field(default_factory=list)
    sent: dict[str, int] = field(default_factory=dict)
    breaks: list[str] = field(default_factory=list)
    meanwhile: list[Callable[[], object]] = field(default_factory=list)

    def ask(self, *arguments: str, text: str | None = None, seconds: float = 1.0) -> str:
        self.asked.append(" ".join(arguments[:2]))
        if arguments[0] == "build":
            if self.breaks:
                raise UnavailableError(self.breaks[0])
            for each in self.meanwhile:
                each()
            self.label[:] = [each.partition("=")[2] for each in arguments if each.startswith(f"{LABEL}=")]
            with tarfile.open(Path(arguments[-1]) / "node.tar") as archive:
                self.sent.update({member.name: member.mode for member in archive})
        return "".join(self.label)


@pytest.fixture
def engine() -> FakeEngine:
    return FakeEngine("docker", "docker")


@pytest.fixture
def make(engine: FakeEngine, tmp_path: Path) -> Callable[[], str]:
    (tmp_path / "kind" / "usr" / "local" / "bin").mkdir(parents=True)
    for name in ("kubelet", "debian.tar", "kind/usr/local/bin/entrypoint"):
        (tmp_path / name).write_text(name)
    image = Image(("registry.k8s.io/pause:3.10",), {"/pause": tmp_path / "kubelet"})
    node, texts = {"usr/bin/kubelet": tmp_path / "kubelet"}, {"kind/version": "v1.34.2"}
    parts = ImageParts(Version(1, 34, 2), (image,), node, texts, tmp_path / "kind", tmp_path / "debian.tar", ())
    return lambda: ImageBuilder(engine, Cache(tmp_path / "cache"), Reporter()).build(parts)


def test_same_inputs_build_the_image_once(make: Callable[[], str], engine: FakeEngine) -> None:
    assert (make(), make()) == (NAME, NAME)
    assert engine.asked.count("build --network") == 1


def test_another_program_makes_another_image(make: Callable[[], str], engine: FakeEngine, tmp_path: Path) -> None:
    make()
    (tmp_path / "kubelet").write_text("another")
    make()
    assert engine.asked.count("build --network") == 2


def test_programs_of_the_node_are_executable(make: Callable[[], str], engine: FakeEngine) -> None:
    make()
    assert engine.sent["usr/bin/kubelet"] == engine.sent["usr/local/bin/entrypoint"] == 0o755
    assert engine.sent["kind/version"] == 0o644


class ImpatientWatcher(Reporter):
    """Raises an error instead of waiting until another build ends."""

    def say(self, line: str) -> None:
        if "waiting" in line:
            raise UnavailableError(line)


def test_build_of_another_version_removes_no_step_of_this_one(
    make: Callable[[], str], engine: FakeEngine, tmp_path: Path
) -> None:
    debian = tmp_path / "debian.tar"
    another = ImageParts(Version(1, 33, 1), (), {}, {}, tmp_path / "kind", debian, ())
    builder = ImageBuilder(FakeEngine("docker", "docker"), Cache(tmp_path / "cache"), ImpatientWatcher())

    def build_another() -> None:
        with pytest.raises(UnavailableError, match="another process that builds an image"):
            builder.build(another)

    engine.meanwhile.append(build_another)
    make()


def test_build_that_fails_leaves_nothing(make: Callable[[], str], engine: FakeEngine, tmp_path: Path) -> None:
    engine.breaks.append("no space left")
    with pytest.raises(UnavailableError, match="no space left"):
        make()
    assert list((tmp_path / "cache" / "partial").iterdir()) == []
    assert engine.asked[-1] == "image prune"


def test_leftovers_of_a_killed_build_are_removed_by_the_next(make: Callable[[], str], tmp_path: Path) -> None:
    make()
    left = tmp_path / "cache" / "partial" / "node-image-v1.34.2-build"
    left.mkdir()
    (left / "node.tar").write_text("half")
    make()
    assert not left.exists()
