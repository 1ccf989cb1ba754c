"""The small Go module in which a component is compiled: it pins one release and imports only the command.

Kubernetes is published as k8s.io/kubernetes v1.X.Y, whose go.mod replaces each staging module (k8s.io/api, …) with a
folder of its repository. The folders do not exist outside the repository, but each module is published as v0.X.Y from
the same commit. The Go module therefore repeats every replacement with that version, because Go reads replacements only
in the main module. The Go version and GODEBUG settings match the release, because they affect run-time behaviour.

If a release has no main package for a command (`e2e`), the Go module itself is that command. It excludes version v0.X.Y
of the staging modules, which it would otherwise use. Components of the release use v0.0.0, which is replaced by the
same code, but Go would not reuse their compiled packages for v0.X.Y.
"""

from collections.abc import Mapping
from typing import Any

from harness.binaries.component import AGNHOST, ETCD, Binary
from harness.binaries.versions import Version

_STAMPED = ("k8s.io/component-base/version", "k8s.io/client-go/pkg/version")
_TAGS = "selinux,notest,grpcnotrace"  # as in official builds, hack/lib/golang.sh
_GO_MOD = """\
// Made by trafficdist, to compile {package} {tag}.
module trafficdist.dev/components/{name}

go {go}
{godebug}
require {module} {tag}
{excludes}
replace (
{replacements}
)
"""
_IMPORT = """\
//go:build components

// Package components keeps the command among the requirements of this module.
package components

import _ "{package}"
"""


def staging_version(version: Version) -> Version:
    """Return the version of the staging modules of a Kubernetes release: 0.34.2 for 1.34.2."""
    return Version(0, version.minor, version.patch, version.pre)


def release_version(staging: Version) -> Version:
    """Return the Kubernetes release of a version of the staging modules: 1.34.2 for 0.34.2."""
    return Version(1, staging.minor, staging.patch, staging.pre)


def go_mod(component: Binary, version: Version, described: Mapping[str, Any]) -> str:
    """Return the content of go.mod. `described` is the output of `go mod edit -json` for the release's go.mod."""
    replaced = [(each["Old"], each["New"]) for each in described.get("Replace") or ()]
    staging = [old["Path"] for old, new in replaced if new["Path"].startswith("./staging/")]
    pinned = staging_version(version).tag
    excluded = [f"\t{each} {pinned}" for each in staging] if component.program else []
    replacements = [f"\t{each} => {each} {pinned}" for each in staging] if component.kubernetes else []
    replacements += [
        f"\t{' '.join(filter(None, (old['Path'], old.get('Version'))))} => {new['Path']} {new['Version']}"
        for old, new in replaced
        if new.get("Version")
    ]
    settings = "".join(f"\ngodebug {each['Key']}={each['Value']}" for each in described.get("Godebug") or ())
    return _GO_MOD.format(
        name=component.name,
        package=component.name if component.program else component.package,
        module=component.module,
        tag=version.tag,
        go=described.get("Go", "1.21"),
        godebug=f"{settings}\n" if settings else "",
        excludes="\n".join(["", "exclude (", *excluded, ")", ""]) if excluded else "",
        replacements="\n".join(replacements),
    )


def go_file(component: Binary) -> str:
    """Return the module's only Go file. If the file imports a command, a build tag excludes the file from builds."""
    return component.program or _IMPORT.format(package=component.package)


def build_flags(component: Binary, version: Version, *, commit: str = "", time: str = "") -> list[str]:
    """Return the flags of official builds for `go build` and `go list`, which also set the version to be reported."""
    flags = ["-mod=mod", "-trimpath"]
    if not component.kubernetes:
        stamp = f" -X go.etcd.io/etcd/api/v3/version.GitSHA={commit[:9]}" if commit and component is ETCD else ""
        return [*flags, f"-ldflags=-s -w{stamp}"]
    values = {
        "gitVersion": version.tag,
        "gitMajor": str(version.major),
        "gitMinor": str(version.minor),
        "gitTreeState": "clean",
        "gitCommit": commit or "unknown",  # part of clients' user agents; Go sources have a placeholder
        "buildDate": time,
    }
    stamps = [f"-X {package}.{name}={value}" for package in _STAMPED for name, value in values.items() if value]
    if component is AGNHOST:  # the image has its own version, which is not in the module
        stamps.append(f"-X main.Version={version.tag}")
    return [*flags, f"-tags={_TAGS}", f"-ldflags=-s -w {' '.join(stamps)}"]
