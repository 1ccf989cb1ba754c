"""Changes kubeadm's static pods of the control plane: their image, feature gates, and list of controllers. A kubelet
treats a changed manifest as a new pod, so a new start number in a label causes a restart.
"""

import copy
from collections.abc import Mapping

from harness.api.client import Object
from harness.errors import UnavailableError

START_LABEL = "trafficdist.dev/start"
_GATES, _CONTROLLERS, _ELECT = "--feature-gates", "--controllers", "--leader-elect"
_GRACE = 3  # seconds
_EVERYTHING = "*"
_SLICES = "endpointslice"  # the controller's name up to 1.27, and an alias since then


def with_start(pod: Object, start: int) -> Object:
    """Return the pod with label `START_LABEL` and a short grace period, because API servers wait for open watches."""
    changed = copy.deepcopy(pod)
    changed["spec"]["terminationGracePeriodSeconds"] = _GRACE
    changed["metadata"].setdefault("labels", {})[START_LABEL] = str(start)
    return changed


def of_release(pod: Object, tag: str, gates: Mapping[str, bool]) -> Object:
    """Return the pod with image tag `tag` and exactly these feature gates. Raises `UnavailableError`."""
    changed = copy.deepcopy(pod)
    container = _container(changed)
    container["image"] = image_at(container["image"], tag)
    text = ",".join(f"{name}={str(on).lower()}" for name, on in sorted(gates.items()))
    _set(container["command"], _GATES, text or None)
    return changed


def without_election(pod: Object) -> Object:
    """Return the pod without leader election, because its replacement would wait until the pod's Lease expires."""
    changed = copy.deepcopy(pod)
    _set(_container(changed)["command"], _ELECT, "false")
    return changed


def without_slices(pod: Object) -> Object:
    """Return the controller manager's pod without the EndpointSlice controller, but with all other controllers."""
    changed = copy.deepcopy(pod)
    command = _container(changed)["command"]
    given = [each.partition("=")[2] for each in command if each.startswith(f"{_CONTROLLERS}=")]
    chosen = next(iter(given), "") or _EVERYTHING
    _set(command, _CONTROLLERS, f"{chosen},-{_SLICES}")
    return changed


def tag_of(pod: Object) -> str:
    return tag_at(image_of(pod))


def image_of(pod: Object) -> str:
    return str(_container(pod)["image"])


def tag_at(image: str) -> str:
    return _split(image)[1]


def image_at(image: str, tag: str) -> str:
    return f"{_split(image)[0]}:{tag}"


def _split(image: str) -> tuple[str, str]:
    repository, sign, tag = image.partition("@")[0].rpartition(":")
    if not sign or "/" in tag:
        raise UnavailableError(f"image {image} has no tag, so the image of another version is unknown")
    return repository, tag


def _container(pod: Object) -> Object:
    containers: list[Object] = pod["spec"]["containers"]
    if len(containers) != 1:
        raise UnavailableError(
            f"static pod {pod['metadata']['name']} has {len(containers)} containers; expected one, as in kubeadm's pods"
        )
    return containers[0]


def _set(command: list[str], flag: str, value: str | None) -> None:
    at = next((number for number, each in enumerate(command) if each.startswith(f"{flag}=")), len(command))
    command[at : at + 1] = [] if value is None else [f"{flag}={value}"]
