"""Extract Debian packages with their dependencies from a Debian file system, for kube-proxy's image or for a shell.

Every file comes from the archive of the node's own file system, so nothing is downloaded or installed twice. Packages
for installation scripts, such as debconf, are left out.
"""

import re
import tarfile
from collections.abc import Collection, Iterator, Mapping, Sequence
from copy import copy

_STATUS = "./var/lib/dpkg/status"
_LISTS = "./var/lib/dpkg/info/"
_LEFT_OUT = frozenset({"debconf", "dpkg", "perl-base"})
_MERGED = re.compile(r"^/(bin|sbin|lib|lib32|lib64|libx32)(?=/|$)")  # links into /usr, since Debian 12
_LINKS = {"./bin": "usr/bin", "./sbin": "usr/sbin", "./lib": "usr/lib", "./lib64": "usr/lib64", "./usr/bin/sh": "dash"}
_COMMANDS = {
    f"./usr/sbin/{family}{verb}": "xtables-nft-multi"
    for family in ("iptables", "ip6tables")
    for verb in ("", "-save", "-restore")
}


def needs(status: str) -> dict[str, set[str]]:
    """Return the dependencies of each package, from dpkg's status file. Of alternatives, only the first is used."""
    found: dict[str, set[str]] = {}
    for paragraph in status.split("\n\n"):
        fields = dict(line.split(": ", 1) for line in paragraph.splitlines() if re.match(r"[A-Z][\w-]*: ", line))
        if "Package" not in fields:
            continue
        words = ", ".join(fields[name] for name in ("Pre-Depends", "Depends") if name in fields)
        found[fields["Package"]] = {
            match[0] for each in words.split(",") if (match := re.match(r"[a-z0-9][a-z0-9+.-]*", each.strip()))
        }
    return found


def closure(wanted: Collection[str], needed: Mapping[str, set[str]]) -> list[str]:
    """Return these packages and all their dependencies."""
    found: set[str] = set()
    left = list(wanted)
    while left:
        package = left.pop()
        if package not in found and package in needed and package not in _LEFT_OUT:
            found.add(package)
            left += needed[package]
    return sorted(found)


def place(path: str) -> str:
    """Return the name in the archive of a file that a package lists with this path."""
    return "." + _MERGED.sub(r"/usr/\1", path)


def take(archive: tarfile.TarFile, wanted: Sequence[str]) -> Iterator[tuple[tarfile.TarInfo, bytes]]:
    """Return the members of these packages and their dependencies, and the links into /usr that Debian adds."""
    members = {member.name: member for member in archive}
    packages = closure(wanted, needs(_text(archive, members[_STATUS])))
    names: set[str] = set()
    for package in packages:
        listed = next(
            f"{_LISTS}{package}{end}" for end in (":amd64.list", ".list") if f"{_LISTS}{package}{end}" in members
        )
        names |= {place(line) for line in _text(archive, members[listed]).splitlines()}
    for name in sorted(names & set(members)):
        member = members[name]
        if not member.isdir() and not name.startswith("./usr/share/"):
            yield _plain(member), _content(archive, member)
    for name, target in {**_LINKS, **(_COMMANDS if "iptables" in packages else {})}.items():
        if name in names & set(members):
            continue
        link = tarfile.TarInfo(name)
        link.type, link.linkname = tarfile.SYMTYPE, target
        yield link, b""


def _plain(member: tarfile.TarInfo) -> tarfile.TarInfo:
    plain = copy(member)  # early Python 3.11 has no `TarInfo.replace`
    plain.mtime, plain.uname, plain.gname = 0, "", ""
    return plain


def _content(archive: tarfile.TarFile, member: tarfile.TarInfo) -> bytes:
    file = archive.extractfile(member) if member.isreg() else None
    return file.read() if file else b""


def _text(archive: tarfile.TarFile, member: tarfile.TarInfo) -> str:
    return _content(archive, member).decode()
