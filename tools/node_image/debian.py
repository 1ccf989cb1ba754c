"""Build the file system of a node from Debian packages with mmdebstrap, and extract packages from it for images."""

import hashlib
import re
import shutil
import subprocess
import tarfile
from collections.abc import Collection, Iterator, Mapping, Sequence
from copy import copy
from pathlib import Path

from harness.binaries.cache import Cache, explained_errors
from harness.binaries.progress import Reporter
from harness.errors import UnavailableError

_LEFT_OUT = ("/usr/share/doc/*", "/usr/share/man/*", "/usr/share/locale/*", "/usr/share/info/*")
_TAIL = 600  # number of characters of mmdebstrap's output in an error
_INSTALLERS = frozenset({"debconf", "dpkg", "perl-base"})
_STATUS = "./var/lib/dpkg/status"
_LISTS = "./var/lib/dpkg/info/"
_MERGED = re.compile(r"^/(bin|sbin|lib|lib32|lib64|libx32)(?=/|$)")  # links into /usr, since Debian 12
_LINKS = {"./bin": "usr/bin", "./sbin": "usr/sbin", "./lib": "usr/lib", "./lib64": "usr/lib64", "./usr/bin/sh": "dash"}
_COMMANDS = {
    f"./usr/sbin/{family}{verb}": "xtables-nft-multi"
    for family in ("iptables", "ip6tables")
    for verb in ("", "-save", "-restore")
}


def file_system(packages: str, *, suite: str, mirror: str, cache: Cache, watcher: Reporter, again: bool) -> Path:
    """Return an archive of a Debian file system. `packages` has one name or # comment per line."""
    names = [line for line in packages.splitlines() if line and not line.startswith("#")]
    key = hashlib.sha256(" ".join((suite, mirror, *names, *_LEFT_OUT)).encode()).hexdigest()[:12]
    folder = cache.folder / "node-image"
    archive = folder / f"debian-{suite}-{key}.tar"
    if archive.exists() and not again:
        return archive
    mmdebstrap = shutil.which("mmdebstrap")
    if mmdebstrap is None:
        raise UnavailableError(
            "node images need mmdebstrap on the PATH; install it (on Debian and Ubuntu: apt-get install mmdebstrap)"
        )
    watcher.say(f"Debian {suite}: downloading and unpacking {len(names)} packages and their dependencies")
    partial = folder / "partial.tar"
    with explained_errors(folder):
        folder.mkdir(parents=True, exist_ok=True)
        partial.unlink(missing_ok=True)
    done = subprocess.run(  # noqa: S603  with arguments that we made
        [
            mmdebstrap, "--variant=minbase", f"--include={','.join(names)}",
            *(f"--dpkgopt=path-exclude={each}" for each in _LEFT_OUT),
            suite, str(partial), *([mirror] if mirror else []),
        ],
        capture_output=True, text=True, check=False,
    )  # fmt: skip
    if done.returncode != 0:
        raise UnavailableError(f"mmdebstrap could not build Debian {suite}:\n{done.stderr.strip()[-_TAIL:]}")
    partial.rename(archive)
    return archive


def dependencies(status: str) -> dict[str, set[str]]:
    """Parse dpkg's status file. Return the dependencies of each package. Of alternatives, only the first counts."""
    found: dict[str, set[str]] = {}
    for paragraph in status.split("\n\n"):
        fields = dict(line.split(": ", 1) for line in paragraph.splitlines() if re.match(r"[A-Z][\w-]*: ", line))
        if "Package" in fields:
            words = ", ".join(fields[name] for name in ("Pre-Depends", "Depends") if name in fields)
            found[fields["Package"]] = set(re.findall(r"(?:^|,)\s*([a-z0-9][a-z0-9+.-]*)", words))
    return found


def closure(wanted: Collection[str], needed: Mapping[str, set[str]]) -> list[str]:
    """Return these packages and all their dependencies, without `_INSTALLERS`."""
    found: set[str] = set()
    left = list(wanted)
    while left:
        package = left.pop()
        if package not in found and package in needed and package not in _INSTALLERS:
            found.add(package)
            left += needed[package]
    return sorted(found)


def name_in_archive(path: str) -> str:
    """Convert a path in a package's file list to the name of the member in the archive."""
    return "." + _MERGED.sub(r"/usr/\1", path)


def extract(archive: tarfile.TarFile, wanted: Sequence[str]) -> Iterator[tuple[tarfile.TarInfo, bytes]]:
    """Yield the members of these packages and their dependencies, and the links into /usr that Debian adds."""
    members = {member.name: member for member in archive}
    chosen = closure(wanted, dependencies(_content(archive, members[_STATUS]).decode()))
    names: set[str] = set()
    for package in chosen:
        listed = next(name for end in (":amd64", "") if (name := f"{_LISTS}{package}{end}.list") in members)
        names |= {name_in_archive(line) for line in _content(archive, members[listed]).decode().splitlines()}
    for name in sorted(names & set(members)):
        member = members[name]
        if not member.isdir() and not name.startswith("./usr/share/"):
            plain = copy(member)  # early Python 3.11 has no `TarInfo.replace`
            plain.mtime, plain.uname, plain.gname = 0, "", ""
            yield plain, _content(archive, member)
    for name, target in {**_LINKS, **(_COMMANDS if "iptables" in chosen else {})}.items():
        if name not in names & set(members):
            link = tarfile.TarInfo(name)
            link.type, link.linkname = tarfile.SYMTYPE, target
            yield link, b""


def _content(archive: tarfile.TarFile, member: tarfile.TarInfo) -> bytes:
    file = archive.extractfile(member) if member.isreg() else None
    return file.read() if file else b""
