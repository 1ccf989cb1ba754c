"""Extract Debian packages from the file system of a Debian machine."""

import io
import tarfile

from tools.node_image.debian import closure, dependencies, extract, name_in_archive

STATUS = """\
Package: nftables
Status: install ok installed
Depends: libnftables1 (>= 1.0.6), libc6 (>= 2.34)
Description: a program
 with more text: here

Package: libnftables1
Pre-Depends: dpkg (>= 1)
Depends: libjansson4 (>= 2.14) | libjansson5, libc6:any

Package: libjansson4

Package: libc6
Depends: debconf | debconf-2.0

Package: dpkg

Package: perl
"""


def test_dependencies_are_read_without_versions_and_alternatives() -> None:
    assert dependencies(STATUS)["nftables"] == {"libnftables1", "libc6"}
    assert dependencies(STATUS)["libnftables1"] == {"dpkg", "libjansson4", "libc6"}


def test_closure_has_all_transitive_dependencies_except_installers() -> None:
    assert closure(["nftables"], dependencies(STATUS)) == ["libc6", "libjansson4", "libnftables1", "nftables"]


def test_files_are_where_merged_folders_have_them() -> None:
    assert name_in_archive("/sbin/modprobe") == "./usr/sbin/modprobe"
    assert name_in_archive("/lib64/ld-linux-x86-64.so.2") == "./usr/lib64/ld-linux-x86-64.so.2"
    assert name_in_archive("/usr/sbin/nft") == "./usr/sbin/nft"


def _file_system(files: dict[str, str]) -> tarfile.TarFile:
    written = io.BytesIO()
    with tarfile.open(fileobj=written, mode="w") as archive:
        for name, text in files.items():
            member = tarfile.TarInfo(name)
            member.size = len(text)
            archive.addfile(member, io.BytesIO(text.encode()))
    return tarfile.open(fileobj=io.BytesIO(written.getvalue()))


def test_files_of_other_packages_are_excluded() -> None:
    archive = _file_system(
        {
            "./var/lib/dpkg/status": "Package: kmod\nDepends: libkmod2\n\nPackage: libkmod2\n\nPackage: perl\n",
            "./var/lib/dpkg/info/kmod.list": "/.\n/sbin/modprobe\n/usr/share/doc/kmod",
            "./var/lib/dpkg/info/libkmod2:amd64.list": "/lib/x/libkmod.so.2",
            "./var/lib/dpkg/info/perl.list": "/usr/bin/perl",
            "./usr/sbin/modprobe": "program",
            "./usr/lib/x/libkmod.so.2": "library",
            "./usr/bin/perl": "perl",
        }
    )
    taken = {member.name: content for member, content in extract(archive, ["kmod"]) if member.isreg()}
    assert taken == {"./usr/sbin/modprobe": b"program", "./usr/lib/x/libkmod.so.2": b"library"}
