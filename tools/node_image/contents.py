"""Choose the images that a node needs, and the program of each image, from kubeadm's list."""

import re
from collections.abc import Collection, Sequence
from dataclasses import dataclass

from harness.binaries.versions import Version, VersionSpec, parse_version
from harness.errors import UsageError

OLDEST = Version(1, 31, 0)
SYSTEM = ("kube-apiserver", "kube-controller-manager", "kube-scheduler", "kube-proxy")
REPLACED = ("kube-apiserver", "kube-controller-manager", "kube-proxy")  # scenarios change their release
PODROUTES = "trafficdist.dev/podroutes:1"  # as in kind-configs/node-image/default-cni.yaml
_IMAGE = re.compile(r"(?P<repository>.*/(?P<name>[a-z-]+)):v?(?P<version>\d+\.\d+(?:\.\d+)?)(?:-\d+)?")


@dataclass(frozen=True, slots=True)
class ListedImage:
    """An image in kubeadm's list: its name, its program's name, and the version in its tag (None if incomplete)."""

    image: str
    program: str
    version: Version | None


def parse_list(text: str) -> list[ListedImage]:
    """Return the images in the output of `kubeadm config images list`. Raises `UsageError`."""
    found = []
    for image in text.split():
        match = _IMAGE.fullmatch(image)
        if match is None:
            raise UsageError(f"kubeadm lists image {image!r}, whose tag is not a version")
        found.append(ListedImage(image, match["name"], parse_version(match["version"])))
    return found


def nearest(wanted: Version, listed: Collection[Version]) -> Version | None:
    """Return the wanted version, or else the latest of the same minor version, or else the latest of all."""
    if wanted in listed:
        return wanted
    released = [each for each in listed if not each.pre]
    same = [each for each in released if each.series == wanted.series]
    return max(same or released, default=None)


def image_of_release(images: Sequence[ListedImage], program: str, version: Version) -> str:
    like = next(each for each in images if each.program == program)
    return f"{like.image.rpartition(':')[0]}:{version.tag}"


def check(wanted: VersionSpec) -> None:
    version = wanted.exact or parse_version(f"{wanted.series}.0")
    if version is not None and version < OLDEST:
        raise UsageError(f"node images need Kubernetes {OLDEST.series} or newer, not {wanted}")
