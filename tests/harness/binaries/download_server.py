"""A fake download server with the layout of the official ones, which can fail in several ways; fake components.

A fake component is a shell script that prints its version. It is padded so that its download takes several packets.
"""

from __future__ import annotations

import hashlib
import io
import tarfile
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler

from harness.binaries.download import Fetcher
from harness.binaries.progress import Reporter
from harness.binaries.release import Releases, architecture


def script(version: str, *, says: str = "Kubernetes v{}", size: int = 300_000) -> bytes:
    """Return a component that runs and answers --version."""
    head = f"#!/bin/sh\necho '{says.format(version)}'\nexit 0\n".encode()
    return head + b"#" * (size - len(head))


@dataclass
class Mirror:
    """A download server: its files, its faults, and the requests that it received."""

    url: str = ""
    files: dict[str, bytes] = field(default_factory=dict)
    break_off: dict[str, list[int]] = field(default_factory=dict)  # path → bytes sent before each connection closes
    moved: dict[str, str] = field(default_factory=dict)  # path → the URL that it redirects to
    requests: list[str] = field(default_factory=list)  # paths

    def publish(self, component: str, version: str, content: bytes | None = None, sha256: str = "") -> str:
        """Publish a release of a Kubernetes component. Return the path of its binary."""
        content = script(version) if content is None else content
        path = f"/release/v{version}/bin/linux/{architecture()}/{component}"
        self.files |= {path: content, f"{path}.sha256": (sha256 or hashlib.sha256(content).hexdigest()).encode()}
        self.files["/release/stable.txt"] = f"v{version}\n".encode()
        self.files[f"/release/stable-{version.rpartition('.')[0]}.txt"] = f"v{version}\n".encode()
        return path

    def publish_etcd(self, version: str) -> str:
        """Publish a release of etcd. Return the path of its archive."""
        content, name = script(version, says="etcd Version: {}"), f"etcd-v{version}-linux-{architecture()}"
        packed = io.BytesIO()
        with tarfile.open(fileobj=packed, mode="w:gz") as tar:
            entry = tarfile.TarInfo(f"{name}/etcd")
            entry.size = len(content)
            tar.addfile(entry, io.BytesIO(content))
        path = f"/download/v{version}/{name}.tar.gz"
        sums = f"{'0' * 64}  other.zip\n{hashlib.sha256(packed.getvalue()).hexdigest()}  {name}.tar.gz\n"
        self.files |= {path: packed.getvalue(), f"/download/v{version}/SHA256SUMS": sums.encode()}
        return path

    def publish_kind(self, version: str) -> str:
        """Publish a release of kind, with the binary's name in the checksum file. Return the path of the binary."""
        content, name = script(version, says="kind version {}"), f"kind-linux-{architecture()}"
        path = f"/download/v{version}/{name}"
        sum_and_name = f"{hashlib.sha256(content).hexdigest()}  {name}\n"
        self.files |= {path: content, f"{path}.sha256sum": sum_and_name.encode()}
        return path


class MirrorHandler(BaseHTTPRequestHandler):
    mirror: Mirror

    def do_GET(self) -> None:
        self.mirror.requests.append(self.path)
        if self.path in self.mirror.moved:
            self.send_response(302)
            self.send_header("Location", self.mirror.moved[self.path])
            self.send_header("Content-Length", "0")
            self.end_headers()
            return
        content = self.mirror.files.get(self.path)
        if content is None:
            self.send_error(404)
            return
        self.send_response(200)
        self.send_header("Content-Length", str(len(content)))
        self.end_headers()
        limits = self.mirror.break_off.get(self.path)
        self.wfile.write(content[: limits.pop(0)] if limits else content)

    def log_message(self, *arguments: object) -> None:
        pass


def releases(*mirrors: Mirror | str, attempts: int = 4) -> Releases:
    """Return the official releases on these servers. Retries do not wait."""
    urls = [each if isinstance(each, str) else each.url for each in mirrors]
    return Releases(urls, Fetcher(timeout=5, attempts=attempts, pause=lambda seconds: None), f"{urls[0]}/listing")


class ProgressRecorder(Reporter):
    """Records progress messages."""

    def __init__(self) -> None:
        self.lines: list[str] = []
        self.totals: list[int] = []

    def begin(self, what: str, total: int, *, unit: str) -> None:
        self.totals.append(total)

    def say(self, text: str) -> None:
        self.lines.append(text)
