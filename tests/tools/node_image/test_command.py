"""The output and the files of `trafficdist kind-image`. Short shell scripts stand in for the container engines."""

import json
import os
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from harness.binaries.cache import Cache
from harness.binaries.progress import Reporter
from harness.binaries.versions import parse_wanted
from harness.errors import UnavailableError, UsageError
from tools.node_image import build
from tools.node_image.collect import ImageRecipe

Install = Callable[[str, str], Path]


def test_latest_image_of_the_release_is_found(install: Install) -> None:
    install("docker", "printf 'v1.34.2\\nv1.34.12\\nv1.33.9\\n'")
    assert build.find_image(parse_wanted("1.34")) == "trafficdist.dev/kind-node:v1.34.12"


def test_missing_image_is_reported_with_the_command_that_builds_it(install: Install) -> None:
    install("docker", "echo v1.33.9")
    with pytest.raises(UnavailableError, match=r"make kind-image KUBERNETES=1\.34"):
        build.find_image(parse_wanted("1.34"))


def test_unresponsive_engine_is_reported_before_any_work(install: Install, tmp_path: Path) -> None:
    install("docker", "echo 'Cannot connect to the Docker daemon' >&2; exit 1")
    install("go", "exit 99")
    with pytest.raises(UnavailableError, match="docker does not answer; start it"):
        build.make(ImageRecipe(parse_wanted("1.34")), cache=Cache(tmp_path), watcher=Reporter())


def test_old_release_is_refused_without_an_engine(install: Install, tmp_path: Path) -> None:
    install("docker", "exit 1")
    with pytest.raises(UsageError, match=r"not 1\.30"):
        build.make(ImageRecipe(parse_wanted("1.30")), cache=Cache(tmp_path), watcher=Reporter())


@pytest.mark.parametrize("arguments", [("create", "--bundle", "BUNDLE", "id"), ("exec", "--process", "PROCESS", "id")])
def test_runtime_requests_all_capabilities_except_one(
    install: Install, tmp_path: Path, arguments: tuple[str, ...]
) -> None:
    said = build.put_runtime(tmp_path / "runtime")
    runtime = tmp_path / "runtime" / "runc-without-sys-resource"
    assert f"--add-runtime without-sys-resource={runtime}" in said
    install("runc", 'echo "$@"')
    config = tmp_path / "config.json"
    config.write_text(json.dumps({"bounding": ["CAP_KILL", "CAP_SYS_RESOURCE", "CAP_SYSLOG"]}, separators=(",", ":")))
    given = [each.replace("BUNDLE", str(tmp_path)).replace("PROCESS", str(config)) for each in arguments]
    done = subprocess.run([runtime, *given], capture_output=True, text=True, check=True, env=dict(os.environ))
    assert done.stdout.split() == given
    assert json.loads(config.read_text()) == {"bounding": ["CAP_KILL", "CAP_SYSLOG"]}
