"""Tests a recipe on a real kind cluster. The recipe's proxy is kube-proxy, with the image on the node."""

from __future__ import annotations

import contextlib
import re
import shutil
from collections.abc import Callable
from functools import partial
from pathlib import Path

import pytest

from harness.backends.containers.engine import ContainerEngine
from harness.backends.kind.backend import KindBackend
from harness.errors import EndedError, StartError
from harness.eventually import eventually
from harness.model.release import Component
from harness.run.real_cluster import held
from harness.settings.options import resolve
from harness.settings.settings import Settings

GIVEN = Path(__file__).parents[4] / "implementations" / "kube-proxy"
OURS = "v1.34.12"  # the version in the manifest
pytestmark = [pytest.mark.slow, pytest.mark.timeout(1200)]

Make = Callable[[str, str], Settings]


@pytest.fixture
def make(node_image: str, tmp_path: Path) -> Make:
    """Return the settings of a cluster with two nodes. One text in the manifest of the proxy is replaced."""

    def settings(old: str, new: str) -> Settings:
        shutil.copytree(GIVEN / "kind", tmp_path / "kind")
        shutil.copy(GIVEN / "on-kind.yaml", tmp_path / "mine.yaml")
        written = tmp_path / "kind" / "daemonset.yaml"
        text = written.read_text(encoding="utf-8").replace(OURS, node_image.rpartition(":")[2])
        assert old in text
        written.write_text(text.replace(old, new), encoding="utf-8")
        given = {"backend": "kind", "kind-image": node_image, "topology": "a=1,b=1", "families": "IPv4"}
        return resolve({**given, "proxy": str(tmp_path / "mine.yaml")}, environment={})

    return settings


def test_crash_is_noticed_and_a_stop_is_not_a_crash(make: Make, engine: ContainerEngine) -> None:
    with held(make("{server}", "{server}"), print) as backend:
        assert isinstance(backend, KindBackend)
        backend.settle()
        node = next(each for each in engine.clusters() if each in str(backend._target.kubeconfig)) + "-worker2"
        assert "own-kube-proxy" in engine.execute(node, "crictl", "pods")
        backend.stop_component(Component.PROXY, ["b1"])
        assert "kube-proxy" not in engine.execute(node, "ps", "-A")
        backend.start_component(Component.PROXY, backend.release, ["b1"])
        engine.execute(node, "pkill", "-KILL", "kube-proxy")
        with pytest.raises(EndedError, match="own-kube-proxy on b1 exited with 137; its log ends with:") as caught:
            eventually(lambda: bool(backend.settle()), within=60, describe="its end to be noticed")
        assert caught.value.component == Component.PROXY
        eventually(partial(works, backend), within=60, describe="it to work again")


def works(backend: KindBackend) -> bool:
    with contextlib.suppress(EndedError):
        backend.settle()
        return True
    return False


def test_proxy_that_is_not_ready_is_reported_with_pod_node_and_error(make: Make) -> None:
    settings = make("--config=/etc/own-kube-proxy/config.yaml", "--config=/none")
    recipe = Path(settings.proxy.file)
    recipe.write_text(recipe.read_text("utf-8").replace("kind:\n", "kind:\n  ready_seconds: 30\n"), encoding="utf-8")
    with (
        pytest.raises(StartError, match="kube-proxy did not become ready within 30 s: DaemonSet") as caught,
        held(settings, print),
    ):
        pass
    assert re.search(r"^on (a1|b1|control-plane): pod kube-system/own-kube-proxy-", str(caught.value), re.MULTILINE)
    assert "open /none: no such file or directory" in str(caught.value)
    assert any("/none" in log for log in caught.value.logs.values())
