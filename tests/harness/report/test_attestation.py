"""Tests the check of a report's attestation with a program in place of gh."""

from __future__ import annotations

from pathlib import Path

import pytest
from click.testing import CliRunner

from harness.commands.main import main
from harness.report.attestation import FILE, check, repository_of
from harness.report.verification import attested
from tests.harness.report.forged_run import ForgedRun

pytest_plugins = ["pytester"]

GH = """#!/bin/sh
echo "$@" > {folder}/asked
echo "{said}" >&2
exit {code}
"""
ASKED = f"attestation verify report.yaml --bundle {FILE} --repo acme/proxy"


@pytest.fixture
def path(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return a folder that is the whole PATH."""
    (tmp_path / "bin").mkdir()
    monkeypatch.setenv("PATH", str(tmp_path / "bin"))
    return tmp_path / "bin"


def gh(path: Path, code: int, said: str = "") -> None:
    (path / "gh").write_text(GH.format(folder=path, said=said, code=code))
    (path / "gh").chmod(0o755)


@pytest.mark.parametrize(
    ("code", "said", "held", "text"),
    [
        (0, "", True, "a workflow of acme/proxy attested this report"),
        (
            1,
            "Error: wrong issuer",
            False,
            "attested this report: gh: Error: wrong issuer",
        ),
        (4, "To get started, run: gh auth login", None, "is not checked: gh: To get started, run: gh auth login"),
        (1, "dial tcp: lookup tuf-repo.github.com: no such host", None, "is not checked: gh: dial tcp"),
    ],
)
def test_gh_decides(path: Path, code: int, said: str, held: bool | None, text: str) -> None:
    (path.parent / FILE).write_text("{}")
    gh(path, code, said)
    found = check(path.parent, "acme/proxy")
    assert (found[0], text in found[1]) == (held, True), found
    assert (path / "asked").read_text().strip() == ASKED


def test_what_is_missing_is_named(path: Path, tmp_path: Path) -> None:
    assert check(tmp_path, "acme/proxy") == (None, "")
    (tmp_path / FILE).write_text("{}")
    assert check(tmp_path, "acme/proxy")[1].startswith(f"{FILE} is not checked: gh is not installed")
    assert check(tmp_path, "")[1].endswith("name the repository whose workflow made it with --repo OWNER/NAME")


@pytest.mark.parametrize(
    ("url", "repository"),
    [
        ("https://github.com/acme/proxy", "acme/proxy"),
        ("https://github.com/acme/proxy.git", "acme/proxy"),
        ("https://acme.example/proxy", ""),
        ("https://github.com/acme/proxy/--owner", ""),
        ("", ""),
    ],
)
def test_repository_is_that_of_the_implementation(url: str, repository: str) -> None:
    assert repository_of({"implementation": {"url": url}}) == repository


def test_report_without_the_right_attestation_is_refused(forged: ForgedRun, path: Path) -> None:
    (forged.folder / FILE).write_text("{}")
    assert forged.checks() == []  # the file needs no place in the list that it signs
    gh(path, 1, "no matching attestations")
    refused, _ = attested(forged.folder, "acme/proxy")
    assert [each.check for each in refused] == ["attestation"]
    ended = CliRunner().invoke(main, ["verify", "--repo", "acme/proxy", str(forged.folder)])
    assert "attestation: no workflow of acme/proxy attested this report: gh: no matching" in ended.output
    assert (path / "asked").read_text().strip() == ASKED


@pytest.mark.parametrize("name", ["acme", "--owner/x", "a/b/c", "-x/y"])
def test_wrong_repository_is_wrong_use(name: str, tmp_path: Path) -> None:
    ended = CliRunner().invoke(main, ["verify", f"--repo={name}", str(tmp_path)])
    assert (ended.exit_code, "expected OWNER/NAME" in ended.output) == (4, True)
