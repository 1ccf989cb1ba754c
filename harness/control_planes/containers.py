"""Runs etcd, kube-apiserver and kube-controller-manager in containers of their official images, without compiling.

The containers use the host network, because each component needs only a loopback port. The control plane's folder is
mounted at the same path, so arguments, secrets and data are the same as for processes.

Unlike a process, a container does not end with the harness. Each container has the folder as a label, and a running
harness holds a lock in the folder. When the harness ends, a separate process removes its containers. The next start
also removes leftover containers. Kubernetes' images have no tag for the latest patch of a minor version, so this
version is looked up on the release server, unless the Docker engine already has an image.
"""

import contextlib
import functools
import itertools
import os
import signal
import socket
import subprocess
import sys
import threading
from collections.abc import Sequence
from pathlib import Path

from docker.errors import APIError, DockerException, NotFound
from docker.types import LogConfig
from testcontainers.core.config import testcontainers_config
from testcontainers.core.container import DockerContainer
from testcontainers.core.docker_client import DockerClient, get_docker_host

from harness.binaries.component import COMPONENTS, ETCD
from harness.binaries.download import Fetcher
from harness.binaries.release import Releases
from harness.binaries.versions import Version, parse_version, parse_wanted
from harness.control_planes.binaries import BinaryControlPlane
from harness.control_planes.processes import ComponentProgram, Processes
from harness.errors import DistrustError, HarnessError, UnavailableError
from harness.guest.labels import RUN_LABEL
from harness.model.limits import Limits
from harness.model.private_folder import in_use
from harness.netns import sandbox
from harness.netns.process import Process

_REGISTRY = "registry.k8s.io"
_ETCD = Version(3, 6, 8)  # pulled by default: kubeadm's choice for 1.36, which suits older releases
_SOCKET = "unix:///var/run/docker.sock"
_FOLDER_LABEL = "trafficdist.dev/folder"
_END_SECONDS = 10.0  # time limit for copying the remaining output of a container that has ended
_REAPER = """
import sys
sys.stdin.read()  # this read ends when the harness has ended
from harness.control_planes.containers import remove_leftovers
remove_leftovers()
"""


class ContainerProcesses(Processes):
    def __init__(self) -> None:
        """Raises `UnavailableError` if there is no usable Docker engine."""
        self._engine = _engine()
        super().__init__()
        self._numbers = itertools.count(1)
        self.run = self.folder.name.rpartition("-")[2].replace("_", "0")  # in the format of a run id
        testcontainers_config.ryuk_disabled = True  # `_REAPER` replaces testcontainers' own reaper
        remove_leftovers()
        self._reaper = subprocess.Popen(  # noqa: S603  ourselves
            [sys.executable, "-c", _REAPER],
            stdin=subprocess.PIPE,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            start_new_session=True,  # only the harness handles Ctrl-C
        )

    def find(self, component: str, version: str = "") -> ComponentProgram:
        return find_image(self._engine, component, version)

    def start(self, name: str, arguments: Sequence[str | Path]) -> Process:
        image, *flags = map(str, arguments)
        limits = Limits()
        # Use a new name, because a container whose start was interrupted may still have the previous name.
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
                mem_limit=f"{limits.memory}m" if limits.memory else None,
                pids_limit=limits.processes or None,
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
        started = Process(name, _ContainerHandle(container, log, limits), log, begin=begin)
        self._running.append(started)
        return started

    def close(self) -> None:
        """Remove the folder and all containers, including those whose start was interrupted. Idempotent."""
        super().close()
        if self._reaper.poll() is None:
            _remove(self._engine, self.run)
            self._engine.client.close()
            self._reaper.kill()
        self._reaper.communicate()


class ContainerControlPlane(BinaryControlPlane):
    """Three containers that listen on this machine's loopback interface. They require a Docker engine and root."""

    name = "containers"
    _make_processes = ContainerProcesses


class _ContainerHandle:
    def __init__(self, container: DockerContainer, log: Path, limits: Limits) -> None:
        self._container, self._limits = container, limits
        self.reason = ""
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
                    if self._limits.log and file.tell() >= self._limits.log * 1e6:
                        self.reason = self._limits.text("log", "its container")
                        wrapped.kill()
                        break
            code = int(wrapped.wait(timeout=_END_SECONDS)["StatusCode"])
            wrapped.reload()
            if wrapped.attrs["State"]["OOMKilled"]:
                self.reason = self._limits.text("memory", "its container")
        except (DockerException, OSError):
            pass
        finally:
            self._code = 128 - code if code > 128 else code

    def poll(self) -> int | None:
        """Return the exit code, or None until all output is in the log (see `process.ProgramHandle`)."""
        return self._code

    def stop(self, grace: float) -> None:  # noqa: ARG002  the harness simulates crashes
        try:
            self._container.stop()
        except NotFound:
            pass
        except (DockerException, OSError) as error:
            raise DistrustError(f"the Docker engine did not remove a container: {short(error)}") from error
        self._follower.join(_END_SECONDS)


def check(components: Sequence[tuple[str, str]]) -> None:
    """Check that these components (name, version) can run here, and pull their images. Raises `UnavailableError`."""
    engine = _engine()
    with contextlib.closing(engine.client):
        for component, version in components:
            find_image(engine, component, version)


def remove_leftovers(run: str = "") -> list[str]:
    """Remove containers whose harness has ended, of all runs or only of `run`. Return their names."""
    try:
        engine = connect()
    except UnavailableError:
        return []
    with contextlib.closing(engine.client):
        return _remove(engine, run, only_left=True)


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
            "control planes in containers are reached over the machine's loopback, and an ordinary user's run is in a "
            "separate netns: run as root (`sudo -E`), or use --control-plane binaries:VERSION"
        )
    return connect()


def connect() -> DockerClient:
    """Connect to this machine's Docker engine. Raises `UnavailableError`."""
    place = get_docker_host() or _SOCKET
    try:
        _require_listener(place)
        engine = DockerClient()
        facts = engine.client.info()
    except (DockerException, OSError) as error:
        raise UnavailableError(
            f"control planes in containers need a Docker engine, but none answers at {place} ({short(error)}): start "
            "one, or set its address in DOCKER_HOST; --control-plane binaries:VERSION needs none"
        ) from error
    apart = "is on another machine" if facts["Name"] != socket.gethostname() else ""
    if any("rootless" in each for each in facts.get("SecurityOptions") or ()):
        apart = "runs without root, in its own network"
    if apart:
        engine.client.close()
        raise UnavailableError(
            f"the Docker engine at {place} {apart}: its containers do not share this process's loopback interface; "
            "set DOCKER_HOST to an engine on this machine, or use --control-plane binaries:VERSION"
        )
    return engine


def _require_listener(place: str) -> None:
    """Raise `OSError` if no engine listens on a Unix socket. The message is clearer than that of Docker's client."""
    scheme, _, path = place.partition("://")
    if scheme.endswith("unix"):
        with socket.socket(socket.AF_UNIX) as sock:
            sock.connect(path)


def find_image(engine: DockerClient, component: str, version: str = "") -> ComponentProgram:
    """Return the image of a component, and pull it if necessary. Raises `UsageError`, `UnavailableError`."""
    wanted = parse_wanted(version)
    there = _there(engine, component)
    for chosen in wanted.choose(there):
        return ComponentProgram(chosen.tag, there[chosen])
    newest = _newest(component, version)
    if isinstance(newest, str):
        has = f"; it has {', '.join(map(str, sorted(there)))}" if there else ""
        raise UnavailableError(
            f"the Docker engine has no {_REGISTRY}/{component} image for {wanted}{has}, and the latest patch release "
            f"is unknown ({newest}): `docker pull` or `docker load` an image of that version"
        )
    tag = f"{newest}-0" if component == ETCD.name else newest.tag
    image = f"{_REGISTRY}/{component}:{tag}"
    reference = testcontainers_config.hub_image_name_prefix + image
    try:
        engine.client.images.pull(reference)
    except (DockerException, OSError) as error:
        raise UnavailableError(
            f"the Docker engine has no image {reference} and cannot pull it ({short(error)}): `docker load` it, or "
            "set TESTCONTAINERS_HUB_IMAGE_NAME_PREFIX to the prefix of a mirror"
        ) from error
    return ComponentProgram(newest.tag, image)


def _there(engine: DockerClient, component: str) -> dict[Version, str]:
    name = f"{testcontainers_config.hub_image_name_prefix}{_REGISTRY}/{component}"
    found = {}
    for tagged in (each for image in engine.client.images.list(name=name) for each in image.tags):
        tag = tagged.removeprefix(f"{name}:")
        version = parse_version(tag.removesuffix("-0"))
        if version is not None:
            found[version] = f"{_REGISTRY}/{component}:{tag}"
    return found


@functools.cache
def _newest(component: str, version: str) -> Version | str:
    """Return the version to pull, or an error text. The result is cached: without a network, the lookup is slow."""
    known = COMPONENTS[component]
    wanted = parse_wanted(version)
    if known is ETCD and wanted.allows(_ETCD):
        return _ETCD
    try:
        return Releases(fetcher=Fetcher(timeout=10.0, attempts=1)).resolve(known, wanted)
    except HarnessError as error:
        return str(error).splitlines()[0]


def short(error: Exception) -> str:
    """Return the engine's error message or its cause, truncated to 300 characters."""
    text = error.explanation if isinstance(error, APIError) else getattr(error, "strerror", None)
    return str(text or error)[:300]
