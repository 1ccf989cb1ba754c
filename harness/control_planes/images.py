"""Find the official container image of a control plane component.

Images that the Docker engine already has are preferred, so the network is used only when necessary. Kubernetes' images
have no tag for the newest patch of a minor version, so the release server is queried for that version.
"""

from __future__ import annotations

import functools
import socket
from dataclasses import dataclass

from docker.errors import APIError, DockerException
from testcontainers.core.config import testcontainers_config
from testcontainers.core.docker_client import DockerClient, get_docker_host

from harness.binaries.component import COMPONENTS, ETCD
from harness.binaries.download import Fetcher
from harness.binaries.release import Releases
from harness.binaries.versions import Version, parse_version, parse_wanted
from harness.errors import HarnessError, UnavailableError

_REGISTRY = "registry.k8s.io"
_ETCD = Version(3, 6, 8)  # pulled by default: kubeadm's choice for 1.36, which suits older releases
_SOCKET = "unix:///var/run/docker.sock"


@dataclass(frozen=True, slots=True)
class Image:
    """A container image. `reference` is the image name without a mirror prefix."""

    reference: str
    version: Version


def connect() -> DockerClient:
    """Connect to this machine's Docker engine. Raises `UnavailableError` with the remedy."""
    place = get_docker_host() or _SOCKET
    try:
        _knock(place)
        engine = DockerClient()
        told = engine.client.info()
    except (DockerException, OSError) as error:
        raise UnavailableError(
            f"control planes in containers need a Docker engine, and none answers at {place} ({short(error)}): start "
            "one, or name it in DOCKER_HOST; --control-plane binaries:VERSION needs none"
        ) from error
    apart = "is of another machine" if told["Name"] != socket.gethostname() else ""
    if any("rootless" in each for each in told.get("SecurityOptions") or ()):
        apart = "runs without root, in a network of its own"
    if apart:
        engine.client.close()
        raise UnavailableError(
            f"the Docker engine at {place} {apart}: loopback of its containers is not this process's; name one of this "
            "machine in DOCKER_HOST, or take --control-plane binaries:VERSION"
        )
    return engine


def _knock(place: str) -> None:
    """Raise `OSError` if no engine listens on a Unix socket. The text is clearer than that of Docker's client."""
    scheme, _, path = place.partition("://")
    if scheme.endswith("unix"):
        with socket.socket(socket.AF_UNIX) as sock:
            sock.connect(path)


def find_image(engine: DockerClient, component: str, version: str = "") -> Image:
    """Return the image of a component, and pull it if necessary. For `version`, see `harness.binaries.find`.

    Raises `UsageError` for an invalid version, and `UnavailableError` with the remedy.
    """
    wanted = parse_wanted(version)
    there = _there(engine, component)
    for chosen in wanted.choose(there):
        return there[chosen]
    newest = _newest(component, version)
    if isinstance(newest, str):
        has = f"; it has {', '.join(map(str, sorted(there)))}" if there else ""
        raise UnavailableError(
            f"the Docker engine has no image {_REGISTRY}/{component} of {wanted}{has}, and which to get cannot be told "
            f"({newest}): `docker pull` or `docker load` one of that version"
        )
    tag = f"{newest}-0" if component == ETCD.name else newest.tag
    return _pull(engine, Image(f"{_REGISTRY}/{component}:{tag}", newest))


def _there(engine: DockerClient, component: str) -> dict[Version, Image]:
    name = f"{testcontainers_config.hub_image_name_prefix}{_REGISTRY}/{component}"
    found = {}
    for tagged in (each for image in engine.client.images.list(name=name) for each in image.tags):
        tag = tagged.removeprefix(f"{name}:")
        version = parse_version(tag.removesuffix("-0"))
        if version is not None:
            found[version] = Image(f"{_REGISTRY}/{component}:{tag}", version)
    return found


@functools.cache
def _newest(component: str, version: str) -> Version | str:
    """Return the version to pull, or an error text. Cached, because the lookup is slow without a network."""
    known = COMPONENTS[component]
    wanted = parse_wanted(version)
    if known is ETCD and wanted.allows(_ETCD):
        return _ETCD
    try:
        return Releases(fetcher=Fetcher(timeout=10.0, attempts=1)).resolve(known, wanted)
    except HarnessError as error:
        return str(error).splitlines()[0]


def _pull(engine: DockerClient, image: Image) -> Image:
    reference = testcontainers_config.hub_image_name_prefix + image.reference
    try:
        engine.client.images.pull(reference)
    except (DockerException, OSError) as error:
        raise UnavailableError(
            f"the Docker engine has no image {reference} and cannot pull it ({short(error)}): `docker load` it, or "
            "name a mirror's prefix in TESTCONTAINERS_HUB_IMAGE_NAME_PREFIX"
        ) from error
    return image


def short(error: Exception) -> str:
    """Return the engine's error message or its cause, truncated to 300 characters."""
    text = error.explanation if isinstance(error, APIError) else getattr(error, "strerror", None)
    return str(text or error)[:300]
