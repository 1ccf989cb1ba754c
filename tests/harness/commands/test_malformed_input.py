"""Tests that malformed files and options are rejected immediately, with exit code 4 and one line.

To test a new kind of file, add a line to `KINDS`. To test a new kind of error, add a line to `MALFORMED`.
"""

from __future__ import annotations

import itertools
import os
import re
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import orjson
import pytest
import yaml
from click.testing import CliRunner

from harness.commands.main import main
from harness.errors import UsageError
from harness.recipes import readiness
from harness.settings.options import OPTIONS, Option, resolve

pytestmark = pytest.mark.timeout(60)

ROOT = Path(__file__).resolve().parents[3]
SECONDS = 20.0
"""Limit on the processor time until the command rejects the file, in seconds."""

RECIPE = {"name": "mine", "command": ["mine"], "ready": [{"http": {"port": 1}}]}


def refused(*arguments: str | Path, code: int = 4) -> str:
    """Run a command that must reject its input. Return its one line of output."""
    begun = time.process_time()
    result = CliRunner().invoke(main, [str(each) for each in arguments])
    assert time.process_time() - begun < SECONDS
    assert result.exit_code == code, result.output
    said = [line for line in result.output.splitlines() if line and not line.startswith("See `")]
    assert len(said) == 1, result.output
    assert said[0].startswith("error: ")
    assert said[0].isprintable()
    return said[0]


KINDS: dict[str, tuple[str, ...]] = {
    "options file": ("run", "--options-file"),
    "proxy file": ("cluster", "up", "--proxy"),
    "DNS file": ("doctor", "--backend", "netns", "--dns"),
    "kubeconfig": ("explain", "web", "--kubeconfig"),
    "kubeconfig of a clean-up": ("cleanup", "--kubeconfig"),
    "kubeconfig of a doctor": ("doctor", "--backend", "kubeconfig", "--kubeconfig"),
    "report": ("compare",),
    "old report": ("compare", "--changes", "{}"),
    "history": ("judge",),
    "file of scenarios": ("run", "--replay"),
    "run for the shelf": ("shelf", "add"),
}
"""Commands by the kind of file that they read. The file is the last argument, or replaces `{}`."""


def text(said: str | bytes) -> Callable[[Path], None]:
    return lambda path: void(path.write_bytes(said.encode() if isinstance(said, str) else said))


def void(_: object) -> None:
    pass


def sparse(path: Path) -> None:
    with path.open("wb") as file:
        file.truncate(2**40)


def bomb(letters: str = "abcdefghij") -> str:
    rows = (f"{name}: &{name} [{', '.join([f'*{before}'] * 9)}]" for before, name in itertools.pairwise(letters))
    return "\n".join(["a: &a [x]", *rows])


MALFORMED: dict[str, tuple[Callable[[Path], None], str]] = {
    "not there": (void, "no such file|cannot be read|no report|is no history"),
    "a folder": (lambda path: path.mkdir(), "Is a directory|No such file|no report"),
    "a fifo": (os.mkfifo, "not a regular file"),
    "a device": (lambda path: path.symlink_to("/dev/zero"), "not a regular file"),
    "a terabyte": (sparse, "has more than"),
    "a link to itself": (lambda path: path.symlink_to(path), "cannot be read|no such file"),
    "odd bytes": (text(b"\xff\xfe\x00"), "is not YAML"),
    "a control character": (text("name: \x1b[31m"), "is not YAML"),
    "half of a surrogate pair": (text('name: "\\ud800"'), "is not YAML|surrogate"),
    "no end": (text("name: [1, 2"), "is not YAML"),
    "nested lists": (text("[" * 100_000), "nested more than 40 levels deep, in line 1"),
    "nested mappings": (text("{a: " * 100_000), "nested more than 40 levels deep, in line 1"),
    "nested mappings in JSON": (text('{"a":' * 100_000), "nested more than 40 levels deep, in line 1"),
    "aliases of aliases": (text(bomb()), "aliases expand to more than 10,000 values, in line"),
    "a list that is in itself": (text("name: &a [*a]"), "no anchor before it, in line 1"),
    "a merged key": (text("a: &a {x: 1}\nb: {<<: *a}"), "merge keys"),
    "a key twice": (text("name: a\nname: b"), "duplicate key 'name', in line 2"),
    "a key that is no text": (text("1: 2"), "a key must be a string, in line 1"),
    "two documents": (text("name: a\n---\nname: b"), "more than one document, in line 2"),
    "an object of Python": (text("name: !!python/object/apply:os.system [id]"), "tag 'tag:yaml.org,2002:python"),
    "bytes": (text("name: !!binary eA=="), "tag 'tag:yaml.org,2002:binary' is not supported"),
    "no number": (text("name: .nan"), "a number is nan, in line 1"),
    "an endless number": (text("name: 1.0e+999"), "a number is inf, in line 1"),
    "a number of a million digits": (text("name: " + "9" * 1_000_000), "more than 100 digits"),
    "many values": (text("a: [" + "1," * 150_000 + "]"), "more than 100,000 values"),
    "a list": (text("[1, 2]"), "expected a mapping|is not a kubeconfig|schema|expected a list of"),
    "a text": (text("hello"), "expected a mapping|is not a kubeconfig|schema|expected a list of"),
    "other keys": (text("nmae: x"), "unknown|no current context|schema|expected a list of"),
}
"""How to make a malformed file, and a pattern for the error."""

_OWN = {
    # These kinds of file have the same error for all malformed content.
    "run for the shelf": "no such folder|no run.jsonl|no report.yaml",
    "history": "no such folder|no run.jsonl|more than|cannot be read|not a|digest does not match|no complete",
}


QUICK = ("a fifo", "nested lists", "a key twice", "a list")
"""Errors that are tried with every kind of file. The others are tried with one kind, and with all in slow tests."""


@pytest.mark.parametrize(
    ("kind", "how"),
    [
        pytest.param(kind, how, marks=() if how in QUICK or kind == "options file" else pytest.mark.slow)
        for kind in KINDS
        for how in MALFORMED
    ],
)
def test_malformed_file_is_refused_immediately(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, kind: str, how: str
) -> None:
    monkeypatch.setenv("XDG_RUNTIME_DIR", str(tmp_path))  # running clusters; the command must not start one
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))  # kind clusters that this machine may have
    make, expected = MALFORMED[how]
    path = tmp_path / "file.yaml"
    make(path)
    said = refused(*(path if each == "{}" else each for each in KINDS[kind]), path)
    assert "file.yaml" in said
    assert re.search(_OWN.get(kind, expected), said), said


def test_each_kind_of_file_accepts_valid_content(tmp_path: Path) -> None:
    """Without this test, a command might reject a malformed file for another reason."""
    (tmp_path / "file.yaml").write_text(yaml.safe_dump(RECIPE))
    assert resolve({"backend": "netns", "proxy": str(tmp_path / "file.yaml")}, environment={}).project == "mine"
    assert resolve({"backend": "netns", "dns": str(tmp_path / "file.yaml")}, environment={}).project == "mine"
    report = str(ROOT / "reports/1.37/kubernetes-kube-proxy/1.31.3-iptables")
    result = CliRunner().invoke(main, ["compare", "--changes", report, report])
    assert result.exit_code == 0, result.output


# Recipes

LONG = "x" * 5000
RECIPES: dict[str, tuple[dict[str, Any], str]] = {
    "a file without a name": (
        {"files": {"": "x"}},
        "key files: expected a name of 1 to 100 printable characters, not ''",
    ),
    "a file of a NUL": ({"files": {"a\0b": "x"}}, r"key files: expected a string without NUL, not 'a\\x00b'"),
    "a file with a long name": (
        {"files": {LONG: "x"}},
        "key files: expected at most 100 printable characters, not 'xxx",
    ),
    "a file with a name of many bytes": (
        {"files": {"ä" * 100 + "b": "x"}},
        "key files: expected at most 100 printable characters, not 'ää",
    ),
    "a file elsewhere": ({"files": {"../a": "x"}}, "key files: '../a' is not a plain file name"),
    "a file that is a folder": ({"files": {"..": "x"}}, "key files: '..' is not a plain file name"),
    "a file of a line": ({"files": {"a\nb": "x"}}, "key files: expected at most 100 printable characters, not 'a"),
    "a NUL in a file": ({"files": {"a": "x\0"}}, "key files.a: expected a string without NUL"),
    "a variable with =": (
        {"environment": {"A=B": "x"}},
        "key environment: expected the name of a variable, without =, not 'A=B'",
    ),
    "a variable without a name": (
        {"environment": {"": "x"}},
        "key environment: expected a name of 1 to 100 printable characters, not ''",
    ),
    "a NUL in a variable": ({"environment": {"A": "x\0"}}, "key environment.A: expected a string without NUL"),
    "a NUL in a variable's name": (
        {"environment": {"A\0": "x"}},
        "key environment: expected a string without NUL, not 'A",
    ),
    "variables in a list": ({"environment": ["A"]}, "key environment: expected a mapping"),
    "a NUL in the command": ({"command": ["mine", "x\0"]}, r"key command\[1\]: expected a string without NUL"),
    "no program": ({"command": [""]}, r"key command: .*: the first string must name a program"),
    "a name with a folder": ({"name": "../mine"}, "key name: expected a name without /, .* not '../mine'"),
    "a name with an escape": (
        {"name": "a\x1b[31m"},
        r"key name: expected at most 100 printable characters, not 'a\\x1b\[31m'",
    ),
    "a name with two lines": ({"name": "a\nb"}, "key name: expected at most 100 printable characters"),
    "a long name": ({"name": LONG}, "key name: expected at most 100 printable characters"),
    "a name with bidi controls": ({"name": "a\u202eb"}, "key name: expected at most 100 printable characters"),
    "a version with two lines": ({"version": "1\n2"}, "key version: expected at most 100 printable characters"),
    "no mode": ({"modes": []}, "key modes: expected at least one"),
    "a mode with an escape": ({"modes": ["\x1b"]}, r"key modes\[0\]: expected at most 100 printable characters"),
    "endless seconds": ({"ready_seconds": 10**50}, "key ready_seconds: expected seconds from 0 to 600"),
    "yes seconds": ({"quiet_seconds": True}, "key quiet_seconds: expected seconds"),
    "a port of a million": (
        {"ready": [{"http": {"port": 10**6}}]},
        r"key ready\[0\].http.port: expected a number from 1",
    ),
    "a path with another request": (
        {"ready": [{"http": {"port": 1, "path": "/ HTTP/1.1\r\nX: y"}}]},
        r"key ready\[0\].http.path: expected a URL path: / and ",
    ),
    "a path without /": (
        {"ready": [{"metrics": {"port": 1, "path": "x"}}]},
        r"key ready\[0\].metrics.path: expected a URL path: / and ",
    ),
    "a code of no answer": (
        {"ready": [{"http": {"port": 1, "code": 7}}]},
        r"key ready\[0\].http.code: expected a number",
    ),
    "an open bracket": ({"ready": [{"log": "("}]}, r"key ready\[0\].log: '\(' is not a regular expression"),
    "a reference to a group": ({"ready": [{"log": r"(a)\1"}]}, r"key ready\[0\].log: .* is not a regular"),
    "a long repetition": (
        {"ready": [{"log": "a{1001}"}]},
        r"key ready\[0\].log: .* is not a regular",
    ),
    "a long expression": ({"synced": [{"log": LONG}]}, r"key synced\[0\].log: .* is longer than 1,000 characters"),
    "a check in a check": ({"ready": [{"log": {"log": "x"}}]}, r"key ready\[0\].log: expected a string"),
    "two checks in one": (
        {"ready": [{"log": "x", "http": {"port": 1}}]},
        r"key ready\[0\]: expected http or metrics or log",
    ),
    "a check of nothing": ({"ready": [None]}, r"key ready\[0\]: expected http or metrics or log"),
    "an unknown long key": ({LONG: "x"}, "unknown key 'xxx"),
    "an unknown key with an escape": ({"\x1b[31m": "x"}, r"unknown key '\\x1b"),
}


@pytest.mark.parametrize(("changes", "expected"), RECIPES.values(), ids=list(RECIPES))
def test_a_recipe_with_a_wrong_value_is_refused_with_its_key(
    tmp_path: Path, changes: dict[str, Any], expected: str
) -> None:
    path = tmp_path / "mine.yaml"
    path.write_text(yaml.safe_dump(RECIPE | changes))
    for option in ("proxy", "dns"):
        if option == "dns" and "modes" in changes:
            continue
        with pytest.raises(UsageError) as found:
            resolve({"backend": "netns", option: str(path)}, environment={})
        said = str(found.value)
        assert said.isprintable()
        assert len(said) < 1000
        assert re.search(f"^(proxy|DNS) file .*mine.yaml: {expected}", said), said


def test_regular_expression_does_not_backtrack(tmp_path: Path) -> None:
    (tmp_path / "log").write_text("a" * 100 + "b")
    place = readiness.ProgramContext(None, tmp_path / "log")  # type: ignore[arg-type]  no netns: nothing is asked for
    begun = time.process_time()
    said = readiness.LogCheck("^(a|aa)+$").missing(place)
    assert time.process_time() - begun < SECONDS
    assert said == "no line of the log matches '^(a|aa)+$'"


# Options

VALUES: dict[str, Any] = {
    "a NUL": "a\0b",
    "an escape": "\x1b[31mred",
    "two lines": "a\nb",
    "bidi controls": "a\u202eb",
    "half of a surrogate pair": "a\udcffb",
    "a megabyte": "x" * 1_000_000,
    "a mapping": {"a": "b"},
    "lists in lists": [["a"]],
    "a NUL in a list": ["a\0b"],
}
"""Values that every option rejects."""


@pytest.mark.parametrize("option", [each for each in OPTIONS if each.kind != "flag"], ids=lambda each: each.name)
@pytest.mark.parametrize("wrong", VALUES.values(), ids=list(VALUES))
def test_option_with_a_nonsense_value_is_named_and_refused(option: Option, wrong: Any) -> None:
    begun = time.process_time()
    with pytest.raises(UsageError) as found:
        resolve({option.name: wrong}, environment={})
    assert time.process_time() - begun < SECONDS
    assert str(found.value).startswith(f"--{option.name}: ")
    assert len(str(found.value)) < 1000
    assert str(found.value).isprintable()


NUMBERS = (
    "-1", "nan", "inf", "1e999", "9" * 400, "99999999999", "\u0663", "0x10", "1_0", "", " ", "a=99999999999", "a=0",
    "a=-1", "a=1,a=2", "=1", "a=", "a=1=2", f"{'z' * 300}=1", "a=200,b=200", "../../x", "%s%n", "$(id)",
)  # fmt: skip


@pytest.mark.parametrize("option", [each for each in OPTIONS if each.kind != "flag"], ids=lambda each: each.name)
def test_an_odd_value_is_refused_by_name_or_can_be_reported(option: Option) -> None:
    for odd in NUMBERS:
        try:
            settings = resolve({option.name: odd}, environment={})
        except UsageError as error:
            said = str(error)
            assert said.startswith(f"--{option.name}") or option.name in said, said
            assert len(said) < 1000
        else:
            orjson.dumps(settings.to_json())
            assert len(settings.topology.nodes) <= 255


@pytest.mark.parametrize(
    ("name", "value", "said"),
    [
        ("topology", "a=99999999999", "has 99,999,999,999 nodes: expected at most 255"),
        ("topology", f"a={'9' * 400}", "unknown topology"),
        ("workers", "100000", "100000: too many processes: expected at most 512, or 'auto'"),
        ("workers", "9" * 400, "is neither a number of processes"),
        ("seed", "-1", "is not a number from 0 to 9223372036854775807"),
        ("seed", "9" * 5000, "has 5,000 characters"),
        ("time-scale", "nan", "is not a number above 0 and below 1000"),
        ("limits", "memory=-1", "expected NAME=NUMBER, with NAME memory or processes or log, and NUMBER from 0"),
        ("converges-within", "inf", "is not a number above 0 and below 1000"),
        ("kubernetes-version", "banana", "is not a Kubernetes version"),
        (
            "output-dir",
            "x" * 300,
            "is not a path: a path must have at most 4,095 bytes, and each name in it at most 255",
        ),
    ],
)
def test_unbounded_number_is_refused_immediately(name: str, value: str, said: str) -> None:
    begun = time.process_time()
    with pytest.raises(UsageError, match=re.escape(said)):
        resolve({name: value}, environment={})
    assert time.process_time() - begun < SECONDS


PATHS = {"a long name": "x" * 300, "a long path": "/x" * 3000, "a NUL": "a\0b"}
COMMANDS: tuple[tuple[str, ...], ...] = (
    ("judge",), ("verify",), ("compare",), ("compare", "--changes", "x"), ("compare", "x", "y", "--issues"),
    ("run", "--options-file"),
    ("run", "--output-dir"), ("run", "--suite"), ("run", "--proxy"), ("list", "--suite"), ("verify", "x", "--suite"),
    ("explain", "web", "--kubeconfig"), ("cleanup", "--kubeconfig"),
    ("components", "list", "--cache"), ("doctor", "--backend", "netns", "--dns"),
)  # fmt: skip


@pytest.mark.parametrize("command", COMMANDS, ids=" ".join)
@pytest.mark.parametrize("path", PATHS.values(), ids=list(PATHS))
def test_invalid_path_is_a_usage_error_of_each_command(command: tuple[str, ...], path: str) -> None:
    refused(*command, path)
