"""Tests that the files of a run contain no secret of the user, no machine name, and no path of the home folder."""

from __future__ import annotations

import base64
import getpass
import os
import re
import socket
import subprocess
import sys
import zlib
from collections.abc import Iterator
from typing import Any

import pytest
import yaml

from harness.model import privacy
from harness.model.evidence_text import as_yaml
from harness.report.environment import without_secrets

pytest_plugins = ["pytester"]

TOKEN, PASSWORD, WORD = "planted-token-1234", "planted'\"\\pass", "plantedpassword"
BEARER = "planted.bearer.of.a.kubeconfig"


@pytest.fixture
def planted(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setenv("CI_TOKEN", TOKEN)
    monkeypatch.setenv("DB_PASSWORD", PASSWORD)
    monkeypatch.setenv("OTHER_PASSWORD", WORD)
    monkeypatch.setenv("SHORT_TOKEN", "run")
    monkeypatch.setenv("WORD_TOKEN", "kubernetes")
    monkeypatch.setenv("HOME", "/home/planted")
    privacy._pattern.cache_clear()
    yield
    privacy._pattern.cache_clear()


@pytest.mark.parametrize(
    ("text", "left"),
    [
        (f"a{TOKEN}b", "a***b"),
        (f"{PASSWORD}, {WORD}", "***, ***"),
        ("run kubernetes", "run kubernetes"),
        ("https://me:word@example.com/x", "https://***@example.com/x"),
        ("http://me@proxy:3128", "http://***@proxy:3128"),
        ("https://example.com/a@b", "https://example.com/a@b"),
        ('["http://a:80","b@c"]', '["http://a:80","b@c"]'),
        (f"Authorization: Bearer {BEARER}", "Authorization: Bearer ***"),
        ("the bearer of bad news", "the bearer of bad news"),
        ("/home/planted/x /home/planted /home/planted2 /x/home/planted", "~/x ~ /home/planted2 /x/home/planted"),
    ],
)
@pytest.mark.usefixtures("planted")
def test_a_text_is_private(text: str, left: str) -> None:
    assert privacy.private(text) == left
    assert privacy.private(left) == left
    assert privacy.private_values({"a": [text, 1, None]}) == {"a": [left, 1, None]}


def test_objects_in_evidence_have_no_secrets() -> None:
    annotations = {
        "example.com/api-token": TOKEN,
        "kubectl.kubernetes.io/last-applied-configuration": PASSWORD,
        "a": "b",
    }
    container = {"env": [{"name": "DB_PASSWORD", "value": WORD}, {"name": "MODE", "value": "fast"}]}
    pod = {"metadata": {"name": "web", "annotations": annotations}, "spec": {"containers": [container], "token": TOKEN}}
    shown = as_yaml([pod], "pods")
    assert not [each for each in (TOKEN, PASSWORD, WORD) if each in shown]
    assert yaml.safe_load(shown)["spec"]["containers"][0]["env"][1]["value"] == "fast"
    assert yaml.safe_load(shown)["metadata"]["annotations"]["a"] == "b"


def test_arguments_have_no_values_of_secret_options() -> None:
    assert without_secrets(["--api-key", "x", "--token=y", "--keep", "z"]) == [
        "--api-key",
        "***",
        "--token=***",
        "--keep",
        "z",
    ]


PACKED = re.compile(rb'data-packed="([^"]+)"')
"""The compressed part of the page, where a search misses a secret, and finds a short name by chance."""

LEAKY = """
import os
from harness.errors import UnavailableError
from harness.judging.verdict import Verdict

class Leaky:
    def evidence(self):
        return {"all.txt": said()}

def said():
    environment = " ".join(f"{name}={value}" for name, value in sorted(os.environ.items()))
    return f"{environment} {open(os.environ['KUBECONFIG']).read()} https://me:planted-in-url@example.com {os.getcwd()}"

@pytest.fixture
def leaky():
    return Leaky()

@must("KEP-2/leaks")
def test_leaks(leaky):
    assert False, said().replace(chr(10), " ")

@must("KEP-2/is-folded-in")
def test_is_folded_in():
    raise UnavailableError(said().replace(chr(10), " "))
"""


@pytest.mark.slow
def test_run_writes_no_private_data(pytester: pytest.Pytester, sample_suite: Any) -> None:
    """The scenario prints everything it can read.

    The home folder has a kubeconfig, and the environment has many secrets.
    """
    home = pytester.path / "home-of-planted-user"
    (home / "suite").mkdir(parents=True)
    (home / "suite" / "test_sample.py").write_text(sample_suite(extra=LEAKY))
    (home / "kubeconfig").write_text(f"users:\n- user: {{token: x}}\nheader: Bearer {BEARER}\n")
    secrets = {"CI_TOKEN": TOKEN, "DB_PASSWORD": PASSWORD, "OTHER_PASSWORD": WORD, "HOME": str(home),
               "KUBECONFIG": str(home / "kubeconfig"), "https_proxy": "http://me:planted-in-proxy@proxy:1"}  # fmt: skip
    (home / "options.yaml").write_text(
        f"url: https://me:planted-in-option@example.com\norganization: {WORD}\nkeep: always\n"
    )
    options = ["--options-file", str(home / "options.yaml")]
    command = [sys.executable, "-c", "from harness.commands.main import main; main()"]
    run = subprocess.run(
        [*command, "run", "--suite", str(home / "suite"), "--output-dir", str(home / "out"), *options],
        capture_output=True,
        text=True,
        check=False,
        timeout=100,
        env=os.environ | secrets | {"USER": "planted-user", "HOSTNAME": "machine"},
        cwd=home,
    )
    assert run.returncode == 1, run.stdout + run.stderr
    left = {str(path.relative_to(home)): path.read_bytes() for path in (home / "out").rglob("*") if path.is_file()}
    assert {"out/report.yaml", "out/run.jsonl", "out/junit.xml", "out/evidence/KEP-2/leaks/all.txt"} <= left.keys()
    left["out/report.html"] = PACKED.sub(
        lambda part: zlib.decompress(base64.b64decode(part[1])), left["out/report.html"]
    )
    assert b"Bearer ***" in left["out/report.html"].partition(b'id="KEP-2/is-folded-in"')[2].partition(b'id="KEP-2/')[0]
    private = [TOKEN, WORD, BEARER, str(home), "planted-in", r"\pass", socket.gethostname()]
    private += [getpass.getuser()] if getpass.getuser() != "root" else []  # the word "root" is everywhere
    found = {(name, word) for name, content in left.items() for word in private if word.encode() in content}
    assert not found
    assert b"***" in left["out/report.yaml"]
    assert b"~/suite" in left["out/report.yaml"]
    result = subprocess.run([*command, "judge", str(home / "out")], capture_output=True, text=True, check=False)
    assert "is what the history and report.yaml state" in result.stdout, result.stdout + result.stderr
