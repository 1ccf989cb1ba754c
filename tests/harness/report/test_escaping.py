"""Tests that foreign names and messages are shown literally. Terminals and browsers must not interpret the text."""

from __future__ import annotations

import functools
import json
import operator
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import pytest
import yaml
from click.testing import CliRunner
from markdown_it import MarkdownIt

from explain import objects
from harness.commands.console import console
from harness.commands.main import main
from harness.model import escaping
from harness.report import changes, comparison
from tests.explain import cluster_builders
from tests.harness.ci_runner_commands import HOSTILE, commands

pytest_plugins = ["pytester"]

ODD = "\x1b[31m \x9b2J \u202e \u2066 \u200b \x07 \x85 \u2028"
MARKED = "<script>x</script> [a](http://x) ![b](c) `d` **e** _f_ ~~g~~ | h # i \\ &amp; &#64;"
PLANTED = f"planted {ODD} {MARKED}"
LINES = f"{PLANTED}\n\n# planted\r\n| a | b |"


def obeyed(text: str) -> set[str]:
    """Return the characters of a text that control a terminal or change the order of other characters."""
    return {each for each in text if not each.isprintable() and each not in "\n\t"}


@pytest.mark.parametrize("shown", [escaping.for_terminal, escaping.for_line, escaping.for_markdown, escaping.for_code])
def test_markup_in_names_has_no_effect(shown: Any) -> None:
    assert not obeyed(shown(LINES))
    assert "\\x1b[31m" in shown(LINES).replace("\\\\", "\\").replace("\\[", "[")
    assert shown("kube-proxy v1.37.1, zone a_1 is → 'far'") == "kube-proxy v1.37.1, zone a_1 is → 'far'"


@pytest.mark.parametrize("shown", [escaping.for_line, escaping.for_markdown, escaping.for_code])
def test_a_name_is_one_line(shown: Any) -> None:
    assert len(shown(LINES).splitlines()) == 1


def test_documents_have_the_same_value() -> None:
    value = {"a": LINES, PLANTED: [1]}
    as_json = escaping.for_json(json.dumps(value, ensure_ascii=False))
    assert not obeyed(as_json)
    assert json.loads(as_json) == value


def plain(page: str, words: str) -> bool:
    """Return whether a page shows these words as text, and has no HTML element that these words could have created."""
    made = MarkdownIt("commonmark").enable(["table", "strikethrough"]).parse(page)
    inside = [each for token in made for each in (token.children or [])]
    kinds = {each.type for each in (*made, *inside)}
    texts = " ".join("".join(each.content for each in token.children or []) for token in made if token.type == "inline")
    foreign = {"html_block", "html_inline", "link_open", "image", "strong_open", "em_open", "s_open", "heading_open"}
    return words in texts and not kinds & foreign


def test_markdown_shows_planted_markup_as_text() -> None:
    shown = escaping.for_line(PLANTED)
    cell = escaping.for_markdown(PLANTED)
    assert plain(f"- {cell}", shown)
    assert plain(f"| {cell} | y |\n|---|---|\n| {cell} | z |", shown)
    assert not plain(f"- {shown}", shown)


def report(message: str, verdict: str) -> dict[str, Any]:
    test = {"id": f"K/`x`{ODD}|", "level": "MUST", "verdict": verdict, "message": message, "features": [PLANTED]}
    return {
        "implementation": {"project": PLANTED, "version": PLANTED},
        "mode": PLANTED,
        "kubernetesVersion": PLANTED,
        "suite": {"version": PLANTED},
        "tests": [test],
    }


def test_pages_have_no_foreign_elements() -> None:
    old, new = report(LINES, "passed"), report(LINES, "failed")
    found = changes.changes({PLANTED: old}, {PLANTED: new})
    [issue] = changes.issues(found)
    pages = [changes.as_markdown(found, [PLANTED], [(LINES, LINES)]), issue.body, changes.as_markdown([], [PLANTED])]
    pages += [comparison.as_markdown([old, new], [LINES, LINES]).replace("\n## ", "\n")[3:]]
    for page in pages:
        assert not obeyed(page)
        assert plain(page, "planted"), page
    assert not obeyed(issue.title)
    assert "\n" not in issue.title


def test_console_shows_planted_markup_as_text(capsys: pytest.CaptureFixture[str]) -> None:
    from rich.table import Table  # noqa: PLC0415

    table = Table("[bold]name")
    table.add_row(f"{ODD} [red]planted")
    made = console()
    made.print(table)
    made.print(f"{ODD} [link=http://x]planted", soft_wrap=True)
    said = capsys.readouterr().out
    assert not obeyed(said)
    assert "[red]planted" in said
    assert "[link=http://x]planted" in said


def test_error_shows_planted_markup_as_text(tmp_path: Path) -> None:
    context = {"name": PLANTED, "context": {"cluster": "c", "user": "u"}}
    (tmp_path / "config").write_text(yaml.safe_dump({"contexts": [context], "clusters": [], "users": []}))
    for command in (["explain", "web"], ["cleanup"], ["doctor", "--backend", "kubeconfig"]):
        result = CliRunner().invoke(main, [*command, "--kubeconfig", str(tmp_path / "config"), "--context", "x"])
        assert result.exit_code == 4
        assert "planted" in result.output
        assert not obeyed(result.output)


def leaves(value: Any, path: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    """Yield the path of each string in a value."""
    within = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for key, each in within:
        yield from [(*path, key)] if isinstance(each, str) else leaves(each, (*path, key))


EXPLAINED = (
    ("shop/web",),
    ("shop/web", "--format", "json"),
    ("shop/web", "--if", "scale=6"),
    *(("--all", "--format", form) for form in ("text", "json", "md", "html")),
)


@pytest.mark.slow
def test_explanation_is_fully_escaped(tmp_path: Path) -> None:
    """Insert control characters into each string of a recorded cluster in turn."""
    recorded = objects.write(
        cluster_builders.objects(
            cluster_builders.by_annotation(),
            cluster_builders.of_slice(
                cluster_builders.endpoint("a1"),
                cluster_builders.endpoint("b1", hints=""),
                cluster_builders.endpoint("c1"),
            ),
            on=[cluster_builders.labelled("a1", "a"), cluster_builders.node("b1"), cluster_builders.node("c1", "c")],
            pods=[cluster_builders.owned("web-7f-x", "a1"), cluster_builders.proxy("a1", ready=False)],
            events=[cluster_builders.event("TopologyAwareHintsDisabled", "Insufficient CPU")],
            leases=[cluster_builders.lease()],
            further={
                "namespaces": [cluster_builders.namespace(**{"istio.io/dataplane-mode": "ambient"})],
                "ingresses": [cluster_builders.ingress("nginx")],
                "deployments": [cluster_builders.deployment(2, 1, type="Recreate")],
                "horizontalpodautoscalers": [cluster_builders.autoscaler(1, 2)],
                "poddisruptionbudgets": [cluster_builders.budget(1, maxUnavailable=1)],
            },
        ),
        tmp_path,
    )
    assert recorded
    shown = set()
    for file in sorted(tmp_path.iterdir()):
        whole = file.read_text()
        for *path, last in leaves(json.loads(whole)):
            planted = json.loads(whole)
            inner = functools.reduce(operator.getitem, path, planted)
            inner[last] += "\n".join((LINES, *filter(str.isprintable, HOSTILE)))
            file.write_text(json.dumps(planted))
            for asked in EXPLAINED:
                result = CliRunner().invoke(main, ["explain", *asked, "--from", str(tmp_path)])
                assert result.exit_code in {0, 1, 4}, (file.name, path, last, asked, result.output)
                assert not obeyed(result.output), (file.name, path, last, asked)
                assert not commands(result.output), (file.name, path, last, asked)
                assert "html" not in asked or "<script>x" not in result.output
                shown |= {asked} if "planted" in result.output else set()
        file.write_text(whole)
    assert shown == {*EXPLAINED}


LEAKS = f"""
@must("KEP-2/odd")
def test_odd():
    assert False, {LINES!r}

@must("KEP-2/skips")
def test_skips():
    from harness.errors import UnavailableError
    raise UnavailableError({LINES!r})
"""


def texts(value: Any) -> list[str]:
    if isinstance(value, dict):
        return [each for pair in value.items() for part in pair for each in texts(part)]
    return [each for part in value for each in texts(part)] if isinstance(value, list) else [str(value)]


def test_output_of_a_run_is_fully_escaped(certify: Any, capsys: pytest.CaptureFixture[str]) -> None:
    run = certify("passes", extra=LEAKS)
    said = capsys.readouterr()
    assert "planted" in said.out
    ours = said.out.partition("Not met")[2]  # after pytest's own lines
    assert not obeyed(ours)
    for form in ("text", "json"):
        result = CliRunner().invoke(main, ["judge", str(run.folder), "--format", form])
        assert "planted" in result.output
        assert not obeyed(result.output), form
    assert not obeyed((run.folder / "report.yaml").read_text(encoding="utf-8"))
    odd = next(each for each in run.report["tests"] if each["id"] == "KEP-2/odd")
    assert odd["message"].startswith("planted \x1b[31m")  # the value itself is unchanged
    shown = ["".join(ElementTree.parse(run.folder / "junit.xml").getroot().itertext())]
    shown += [value for each in ElementTree.parse(run.folder / "junit.xml").iter() for value in each.attrib.values()]
    for path in (run.folder / "allure-results").glob("*.json"):
        shown += texts(json.loads(path.read_text(encoding="utf-8")))
    assert any("planted" in each for each in shown)
    assert not [each for each in shown if obeyed(each)]
