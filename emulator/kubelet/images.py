"""Images by their names: an embedded cluster pulls none, and knows what some have in them.

Pure.
"""

from __future__ import annotations

IMAGES = ("agnhost", "busybox", "pause")


def repository(image: str) -> str:
    """Return the last part of an image's name, without registry, tag and digest: "agnhost"."""
    return image.partition("@")[0].rpartition("/")[2].partition(":")[0]


def missing(image: str) -> str:
    """Return why an image cannot be had; "" if it can."""
    if image.partition("/")[0].partition(":")[0].endswith(".invalid"):  # a registry that cannot exist (RFC 6761)
        return f'failed to pull image "{image}": no such host'
    if repository(image) not in IMAGES:
        return f'failed to pull image "{image}": an embedded cluster has {", ".join(IMAGES)} only'
    return ""
