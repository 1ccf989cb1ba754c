"""The images that a node needs, as listed by kubeadm."""

import pytest

from harness.binaries.versions import Version, parse_wanted
from harness.errors import UsageError
from tools.node_image.contents import (
    ListedImage,
    check,
    image_of_release,
    nearest,
    parse_list,
)

LISTED = """\
registry.k8s.io/kube-apiserver:v1.34.12
registry.k8s.io/kube-proxy:v1.34.12
registry.k8s.io/coredns/coredns:v1.12.1
registry.k8s.io/pause:3.10.1
registry.k8s.io/etcd:3.6.5-0
"""


def test_each_image_has_its_program_and_version() -> None:
    assert parse_list(LISTED) == [
        ListedImage("registry.k8s.io/kube-apiserver:v1.34.12", "kube-apiserver", Version(1, 34, 12)),
        ListedImage("registry.k8s.io/kube-proxy:v1.34.12", "kube-proxy", Version(1, 34, 12)),
        ListedImage("registry.k8s.io/coredns/coredns:v1.12.1", "coredns", Version(1, 12, 1)),
        ListedImage("registry.k8s.io/pause:3.10.1", "pause", Version(3, 10, 1)),
        ListedImage("registry.k8s.io/etcd:3.6.5-0", "etcd", Version(3, 6, 5)),
    ]


def test_image_without_version_is_refused_by_name() -> None:
    with pytest.raises(UsageError, match=r"registry\.k8s\.io/etcd:newest"):
        parse_list("registry.k8s.io/etcd:newest")


@pytest.mark.parametrize(
    ("wanted", "taken"),
    [
        (Version(3, 6, 5), Version(3, 6, 5)),
        (Version(3, 6, 6), Version(3, 6, 8)),  # the latest of the same minor version
        (Version(3, 4, 1), Version(3, 7, 0)),  # no match: the latest version, without pre-releases
    ],
)
def test_unavailable_version_has_a_nearest_one(wanted: Version, taken: Version) -> None:
    assert nearest(wanted, [Version(3, 7, 0), Version(3, 6, 8), Version(3, 6, 5), Version(3, 8, 0, "alpha.0")]) == taken


def test_empty_list_has_no_nearest_version() -> None:
    assert nearest(Version(3, 6, 5), []) is None


def test_component_of_another_release_is_called_as_kubeadm_would_call_it() -> None:
    image = image_of_release(parse_list(LISTED), "kube-proxy", Version(1, 33, 7))
    assert image == "registry.k8s.io/kube-proxy:v1.33.7"


def test_release_that_is_too_old_is_refused() -> None:
    for allowed in ("1.31", "1.31.4", "newest"):
        check(parse_wanted(allowed))
    for refused in ("1.30", "1.30.14"):
        with pytest.raises(UsageError, match=rf"1\.31 or newer, not {refused}"):
            check(parse_wanted(refused))
