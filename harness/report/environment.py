"""Describe the environment and the suite of a run, from this machine and without network access."""

import contextlib
import functools
import hashlib
import importlib.metadata
import json
import os
import platform
import shutil
import subprocess
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from harness.judging.results import requirement_to_json
from harness.model.privacy import HIDDEN, SOUNDS_SECRET
from harness.model.requirements import Level, Requirement
from harness.run.suite_files import place_of
from harness.settings.settings import Settings

_GIT_SECONDS = 10.0
_ROOT = Path(__file__).resolve().parents[2]


def suite_version() -> str:
    return importlib.metadata.version("trafficdist")


@functools.cache
def suite_revision() -> str:
    """Return the suite's git commit with "-dirty" if it has changes, or "". Raises `OSError` or `SubprocessError`."""
    git = shutil.which("git")
    if git is None or not (_ROOT / ".git").exists():
        return ""
    revision, changes = (
        subprocess.run(  # noqa: S603  git, with our own arguments
            [git, "--no-optional-locks", "-C", str(_ROOT), *arguments],
            capture_output=True,
            text=True,
            check=False,
            timeout=_GIT_SECONDS,
        )
        for arguments in (["rev-parse", "HEAD"], ["status", "--porcelain", "--untracked-files=no"])
    )
    if revision.returncode != 0:
        return ""
    return revision.stdout.strip() + ("-dirty" if changes.stdout.strip() else "")


def suite_of(place: Path, requirements: Iterable[Requirement], revision: str) -> dict[str, str]:
    """Return the report's suite block. For a custom suite, it has trafficdist's version instead of a revision."""
    if place != place_of():
        more = {"harness": suite_version()}
    elif revision:
        more = {"revision": revision}
    else:
        more = {}
    return {**name_and_version(place), **more, "catalogueDigest": catalogue_digest(requirements)}


def name_and_version(place: Path) -> dict[str, str]:
    """Return the name and version of the suite in this folder, or of the package that contains a custom suite."""
    if place == place_of():
        return {"name": "trafficdist", "version": suite_version()}
    while (place.parent / "__init__.py").exists():
        place = place.parent
    return {"name": place.stem, "version": _version_of(place.stem)}


def _version_of(package: str) -> str:
    distributions = importlib.metadata.packages_distributions().get(package, [package])
    with contextlib.suppress(importlib.metadata.PackageNotFoundError, ValueError):
        return importlib.metadata.version(distributions[0])
    return "unknown"


def catalogue_digest(requirements: Iterable[Requirement]) -> str:
    """Return a digest of the whole catalogue, which does not depend on claims. Equal digests mean equal catalogues."""
    known = (replace(each, level=Level.SHOULD) if each.must_if else each for each in requirements)
    rows = [requirement_to_json(each) for each in sorted(known, key=lambda each: each.id)]
    return "sha256:" + hashlib.sha256(json.dumps(rows, sort_keys=True).encode()).hexdigest()


def environment(settings: Settings, reported: Mapping[str, Any]) -> dict[str, Any]:
    """Return the report's environment block: values of this machine, overridden by those of the booted backend."""
    own: dict[str, Any] = {
        "backend": settings.backend,
        "topology": settings.topology.name,
        "kernel": platform.release(),
        "python": platform.python_version(),
        "cpus": os.cpu_count() or 1,
        "servers": {},
        "featureGates": {},
        "nodes": [{"name": node.name, "zone": node.zone} for node in settings.topology.nodes],
        "ipFamilies": list(settings.families),
    }
    return own | dict(reported)


def implementation(settings: Settings) -> dict[str, Any]:
    """Return the report's implementation block, from options. The reference implementation has default values."""
    own = ("The trafficdist authors", "reference", "", suite_version()) if settings.judges_reference else ("",) * 4
    given = (settings.organization, settings.project, settings.url, settings.version)
    values = [theirs or ours for theirs, ours in zip(given, own, strict=True)]
    if settings.mutant:
        values[1] = f"mutant {settings.mutant}"
    names = ("organization", "project", "url", "version")
    return {**dict(zip(names, values, strict=True)), "contact": list(settings.contact)}


def without_secrets(arguments: Sequence[str]) -> list[str]:
    """Return command-line arguments. `***` replaces the value of any option whose name suggests a secret."""
    cleaned: list[str] = []
    hide_next = False
    for argument in arguments:
        name, sign, _ = argument.partition("=")
        secret = name.startswith("-") and bool(SOUNDS_SECRET.search(name.replace("-", "_")))
        cleaned.append(HIDDEN if hide_next else f"{name}={HIDDEN}" if secret and sign else argument)
        hide_next = secret and not sign
    return cleaned
