"""Run etcd, kube-apiserver and kube-controller-manager in containers of their official images. Nothing is compiled.

Only the way of starting differs from local processes. The containers use the host network, because each component needs
only a loopback port. The control plane's folder is mounted at the same path, so arguments, secrets and data are the
same as for processes. Container output is copied to log files in that folder.

Unlike a process, a container does not end with the harness. Each container is labelled with the folder, and a running
harness holds a lock in the folder. When the harness ends, a separate process removes its containers. The next start
also removes containers that are left over.
"""

from __future__ import annotations

import contextlib
import itertools
import os
import signal
import subprocess
import sys
import threading
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from docker.errors import DockerException, NotFound
from docker.types import LogConfig
from testcontainers.core.config import testcontainers_config
from testcontainers.core.container import DockerContainer

from harness.control_planes.binaries import BinariesControlPlane
from harness.control_planes.images import connect, find_image, short
from harness.control_planes.processes import Processes, Program
from harness.errors import DistrustError, UnavailableError
from harness.guest.labels import RUN_LABEL
from harness.model.own_folder import in_use
from harness.netns import sandbox
from harness.netns.process import Process

if TYPE_CHECKING:
    from testcontainers.core.docker_client import DockerClient

_FOLDER_LABEL = "trafficdist.dev/folder"
_END_SECONDS = 10.0  # seconds to copy the remaining output of a container that has ended
_REAPER = """
import sys
sys.stdin.read()  # until the harness is gone
from harness.control_planes.containers import remove_leftovers
remove_leftovers()
"""


class Containers(Processes):
    """All containers of one control plane, and the folder that the containers share with the harness."""

    def __init__(self) -> None:
        """Raises `UnavailableError` with the remedy if no usable Docker engine exists."""
        self._engine = _engine()
        super().__init__()
        self._numbers = itertools.count(1)
        self.run = self.folder.name.rpartition("-")[2].replace("_", "0")  # as run ids are
        testcontainers_config.ryuk_disabled = True  # `_REAPER` replaces testcontainers' own
        remove_leftovers()
        self._reaper = subprocess.Popen(  # noqa: S603  ourselves
            [sys.executable, "-c", _REAPER],
            stdin=subprocess.PIPE,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            start_new_session=True,  # Ctrl-C is for the harness
        )

    def find(self, component: str, version: str = "") -> Program:
        image = find_image(self._engine, component, version)
        return Program(image.version.tag, image.reference)

    def start(self, name: str, arguments: Sequence[str | Path]) -> Process:
        """Start a program from a container image. Raises `UnavailableError` if the start fails."""
        image, *flags = map(str, arguments)
        # A new name, because a container whose start was interrupted may still use the previous one.
        container_name = f"trafficdist-{self.run}-{name}-{next(self._numbers)}"
        log = self.folder / f"{name}.log"
        log.touch()
        begin = log.stat().st_size
        container = (
            DockerContainer(image, name=container_name)
            .with_command(flags)
            .with_kwargs(
                network="host",
                entrypoint=[name],
                user=f"{os.getuid()}:{os.getgid()}",
                working_dir=str(self.folder),
                labels={RUN_LABEL: self.run, _FOLDER_LABEL: str(self.folder)},
                log_config=LogConfig(type=LogConfig.types.JSON),  # override the engine's own default
            )
        )
        container.with_volume_mapping(self.folder, str(self.folder), "rw")
        try:
            container.start()
        except BaseException as error:  # Ctrl-C too
            with contextlib.suppress(DockerException, OSError):
                container.stop()
            if not isinstance(error, (DockerException, OSError)):
                raise
            raise UnavailableError(f"{name} cannot be started in a container of {image}: {short(error)}") from error
        started = Process(name, _Container(container, log), log, begin=begin)
        self._running.append(started)
        return started

    def close(self) -> None:
        """Remove the folder and all containers, including those of interrupted starts. Idempotent."""
        super().close()
        if self._reaper.poll() is None:
            _remove(self._engine, self.run)
            self._engine.client.close()
            self._reaper.kill()
        self._reaper.communicate()


class ContainersControlPlane(BinariesControlPlane):
    """Three containers on loopback of this machine. They require a Docker engine and root."""

    name = "containers"
    _make_processes = Containers


class _Container:
    """A running container. A thread copies the container's output to a log file."""

    def __init__(self, container: DockerContainer, log: Path) -> None:
        self._container = container
        self._code: int | None = None
        self._follower = threading.Thread(target=self._follow, args=(log,), name="container log", daemon=True)
        self._follower.start()

    def _follow(self, log: Path) -> None:
        wrapped = self._container.get_wrapped_container()
        code = 128 + signal.SIGKILL  # the exit code of a removed container
        try:
            with log.open("ab", buffering=0) as file:
                for chunk in wrapped.logs(stream=True, follow=True):
                    file.write(chunk)
            code = int(wrapped.wait(timeout=_END_SECONDS)["StatusCode"])
        except (DockerException, OSError):
            pass
        finally:
            self._code = 128 - code if code > 128 else code

    def poll(self) -> int | None:
        """Return the exit code once all output is in the log, like `harness.netns.process.Handle`."""
        return self._code

    def stop(self, grace: float) -> None:  # noqa: ARG002  a crash is what the harness plays with these
        """Remove the container. Raises `DistrustError` if the engine fails to do so."""
        try:
            self._container.stop()
        except NotFound:
            pass
        except (DockerException, OSError) as error:
            raise DistrustError(f"the Docker engine did not remove a container: {short(error)}") from error
        self._follower.join(_END_SECONDS)


def check(components: Sequence[tuple[str, str]]) -> None:
    """Check that components (name, version) can run here, and pull their images. Raises `UnavailableError`."""
    engine = _engine()
    try:
        for component, version in components:
            find_image(engine, component, version)
    finally:
        engine.client.close()


def remove_leftovers(run: str = "") -> list[str]:
    """Remove containers of killed harnesses, or only of the named run. Returns the names of removed containers.

    Does nothing without an engine.
    """
    try:
        engine = connect()
    except UnavailableError:
        return []
    try:
        return _remove(engine, run, only_left=True)
    finally:
        engine.client.close()


def _remove(engine: DockerClient, run: str, *, only_left: bool = False) -> list[str]:
    labels = [_FOLDER_LABEL, f"{RUN_LABEL}={run}" if run else RUN_LABEL]
    removed = []
    for each in engine.client.containers.list(all=True, filters={"label": labels}, ignore_removed=True):
        if not (only_left and in_use(Path(each.labels[_FOLDER_LABEL]))):
            with contextlib.suppress(NotFound):
                each.remove(force=True, v=True)
                removed.append(each.name)
    return removed


def _engine() -> DockerClient:
    if sandbox.left():
        raise UnavailableError(
            "control planes in containers are reached by loopback of the machine, and an ordinary user's run is in a "
            "netns of its own: run as root (`sudo -E`), or take --control-plane binaries:VERSION"
        )
    return connect()
