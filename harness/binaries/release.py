"""Downloads official binaries: Kubernetes from https://dl.k8s.io, etcd and kind from their releases on GitHub.

    <mirror>/release/v1.34.2/bin/linux/amd64/kube-proxy   and   kube-proxy.sha256       a binary and its checksum
    <mirror>/release/stable-1.34.txt   stable.txt                                       latest 1.34.x; latest of all
    <mirror>/download/v3.6.4/etcd-v3.6.4-linux-amd64.tar.gz   and   SHA256SUMS          etcd
    <mirror>/download/v0.33.0/kind-linux-amd64   and   kind-linux-amd64.sha256sum       kind

A mirror must have this layout. Use only mirrors that you trust, because they also provide the checksums.
"""

import json
import platform
import re
import tarfile
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

from harness.binaries.cache import explained_errors
from harness.binaries.component import ETCD, KIND, Binary
from harness.binaries.download import Fetcher, FileMissingError
from harness.binaries.progress import Reporter
from harness.binaries.versions import Version, VersionSpec, parse_version
from harness.errors import UnavailableError, UsageError

KUBERNETES_MIRROR = "https://dl.k8s.io"
_ON_GITHUB = {ETCD.name: "etcd-io/etcd", KIND.name: "kubernetes-sigs/kind"}
_MACHINES = {"x86_64": "amd64", "aarch64": "arm64", "ppc64le": "ppc64le", "s390x": "s390x"}
_SUM = re.compile(r"[0-9a-f]{64}")


@dataclass(frozen=True, slots=True)
class Releases:
    """Official binaries. `mirrors` are tried in order instead of the publisher. `listing` is the release list's URL."""

    mirrors: Sequence[str] = ()
    fetcher: Fetcher = field(default_factory=Fetcher)
    listing: str = ""

    def resolve(self, component: Binary, wanted: VersionSpec) -> Version:
        """Return the version that `wanted` selects. Raises `UsageError` if there is no such official binary."""
        if component.program or not (component.kubernetes or component.name in _ON_GITHUB):
            raise UsageError(f"official binaries of {component.name} are not available: compile it with --from source")
        if wanted.exact is not None:
            return wanted.exact
        if component.name in _ON_GITHUB:
            return self._resolve_on_github(component, wanted)
        name = f"stable-{wanted.series}.txt" if wanted.series else "stable.txt"
        try:
            answer = self.fetcher.text(self._urls(component, f"release/{name}")).strip()
        except FileMissingError:
            raise UsageError(f"there is no release of Kubernetes {wanted}{self._newest(component)}") from None
        version = parse_version(answer)
        if version is None:
            raise UnavailableError(f"{name} should contain a version, but contains {answer[:80]!r}")
        return version

    def _resolve_on_github(self, component: Binary, wanted: VersionSpec) -> Version:
        """Find a version in GitHub's list of releases, because mirrors have no such list."""
        listing = self.listing or f"https://api.github.com/repos/{_ON_GITHUB[component.name]}/releases?per_page=100"
        name = component.name
        try:
            listed = json.loads(self.fetcher.text([listing]))
            versions = [version for each in listed if (version := parse_version(each["tag_name"]))]
        except (ValueError, TypeError, KeyError):
            raise UnavailableError(f"{listing} is not a list of releases; specify a full version of {name}") from None
        except UnavailableError as error:
            raise UnavailableError(f"{error}\nwithout that list, specify a full version of {name}") from None
        chosen = wanted.choose(versions)
        if not chosen:
            there = ", ".join(map(str, sorted(versions)))
            raise UsageError(f"there is no release of {name} {wanted}; the releases are {there}")
        return chosen[0]

    def fetch(self, component: Binary, version: Version, folder: Path, watcher: Reporter) -> tuple[Path, str]:
        """Download a binary to `folder`. Return its path and URL. Raises `UsageError`, `UnavailableError`."""
        base, sums, archive = _paths(component, version)
        target = folder / (archive or component.name)
        try:
            sha256 = _sum_in(self.fetcher.text(self._urls(component, sums)), archive)
            url = self.fetcher.file(self._urls(component, base), target, sha256, watcher)
        except FileMissingError as error:
            hint = self._newest(component, version.series)
            raise UsageError(
                f"there is no release {version} of {component.name} for linux/{architecture()}{hint}\n{error}"
            ) from None
        if archive:
            target = _unpack(target, f"{archive.removesuffix('.tar.gz')}/{component.name}", folder / component.name)
        return target, url

    def _urls(self, component: Binary, path: str) -> list[str]:
        repository = _ON_GITHUB.get(component.name)
        mirrors = self.mirrors or [f"https://github.com/{repository}/releases" if repository else KUBERNETES_MIRROR]
        return [f"{mirror.rstrip('/')}/{path}" for mirror in mirrors]

    def _newest(self, component: Binary, series: str = "") -> str:
        """Return a clause about the latest versions for an error message, or "" if they are unknown."""
        if component.name in _ON_GITHUB:
            return ""
        known = []
        for name, of in ((f"stable-{series}.txt", f"of {series}"), ("stable.txt", "of all"))[0 if series else 1 :]:
            try:
                newest = parse_version(self.fetcher.text(self._urls(component, f"release/{name}")).strip())
            except UnavailableError:
                continue
            known += [f"the newest {of} is {newest}"] if newest else []
        return f"; {', '.join(known)}" if known else ""


def _paths(component: Binary, version: Version) -> tuple[str, str, str]:
    """Return the paths of a download and of its checksum, and the download's name if it is an archive, else ""."""
    if component is ETCD:
        archive = f"etcd-{version.tag}-linux-{architecture()}.tar.gz"
        return f"download/{version.tag}/{archive}", f"download/{version.tag}/SHA256SUMS", archive
    if component is KIND:
        binary = f"download/{version.tag}/kind-linux-{architecture()}"
        return binary, f"{binary}.sha256sum", ""
    binary = f"release/{version.tag}/bin/linux/{architecture()}/{component.name}"
    return binary, f"{binary}.sha256", ""


def architecture() -> str:
    """Return this machine's architecture in Go's terms. Raises `UnavailableError` if it has no official binaries."""
    machine = platform.machine()
    if machine not in _MACHINES:
        raise UnavailableError(f"there are no official binaries for {machine}; compile them with --from source")
    return _MACHINES[machine]


def _sum_in(text: str, name: str) -> str:
    """Return the checksum for `name`, or the first checksum if `name` is empty. Raises `UnavailableError`."""
    for line in text.lower().splitlines():
        words = line.split()
        if words and _SUM.fullmatch(words[0]) and (not name or words[-1].lstrip("*") == name):
            return words[0]
    raise UnavailableError(f"no SHA-256 sum{f' of {name}' if name else ''} in the published file: {text[:80]!r}")


def _unpack(archive: Path, member: str, target: Path) -> Path:
    try:
        with tarfile.open(archive) as tar, explained_errors(target):
            packed = tar.extractfile(member)
            if packed is None:
                raise KeyError(member)
            with packed, target.open("wb") as file:
                while chunk := packed.read(1 << 20):
                    file.write(chunk)
    except (KeyError, tarfile.TarError, EOFError) as error:
        raise UnavailableError(f"{archive.name} does not contain {member}: {error}") from None
    archive.unlink()
    return target
