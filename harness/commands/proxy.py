"""The commands `trafficdist proxy`: the first half hour of who writes a proxy, from a recipe to what holds."""

from __future__ import annotations

import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import click

from harness.commands.arguments import FILE, by_name, completer_of, with_options
from harness.commands.front import examples
from harness.errors import UsageError
from harness.model.files import is_there, shown
from harness.settings.checks import unknown_name
from harness.settings.options import BY_NAME, resolve

_USED = ("mode", "backend", "control-plane", "kubernetes-version", "feature-gates", "families", "kind-image", "cni",
         "probes", "keep-cluster", "time-scale", "keep", "output-dir")  # fmt: skip


@dataclass(frozen=True, slots=True)
class _Question:
    """One question of `init`, which is an option too. `default` is the answer of who gives none; None: it is needed."""

    name: str
    text: str
    default: str | None = None

    @property
    def key(self) -> str:
        """The name of the answer in Python."""
        return self.name.replace("-", "_")


_FORMS = "http PORT [PATH], metrics PORT NAME, or log PATTERN"
_QUESTIONS = (
    _Question("name", "Name of the proxy, for reports"),
    _Question("version", "Version of the proxy, for reports", ""),
    _Question("command", "Command that starts it on a node, for example: mine --config={kubeconfig} --node={node}"),
    _Question("mode", "What it programs: nftables, iptables, ipvs, ebpf", "nftables"),
    _Question("ready", f"When it is ready: {_FORMS}"),
    _Question("synced", f"When it has worked on everything that was written: {_FORMS}; nothing if it does not say", ""),
    _Question("features", "Features that it has beside the core, with commas, such as NodeHints,IPv6", ""),
    _Question("zone-hints", "Whether it follows hints for zones: yes or no", "yes"),
)


def _answers(command: Callable[..., Any]) -> Callable[..., Any]:
    for each in reversed(_QUESTIONS):
        said = each.text + (f" [{each.default}]" if each.default else "")
        command = click.option(f"--{each.name}", each.key, metavar="TEXT", help=f"{said}.")(command)
    return command


@click.group(epilog=examples("proxy init mine.yaml", "proxy check mine.yaml", "proxy check kube-proxy"))
def proxy() -> None:
    """Take the first steps with a proxy of one's own."""


@proxy.command(
    epilog=examples(
        "proxy check mine.yaml",
        "proxy check reference",
        "proxy check kube-proxy:1.34 --mode iptables",
        "proxy check mine.yaml --backend kind",
        codes="\b\nExit codes:\n   0  all steps hold\n   1  the proxy does something else than is expected\n"
        "   4  the recipe or an option is wrong\n  10  it could not be told\n"
        "  12  the proxy does not start, or does not get ready",
    )
)
@click.argument("proxy", metavar="PROXY", shell_complete=completer_of(BY_NAME["proxy"]))
@with_options([BY_NAME[name] for name in _USED])
def check(proxy: str, **options: Any) -> int:
    """Check in seconds how far a proxy comes, and say of each step whether it holds.

    PROXY is a recipe, reference, or kube-proxy[:VERSION], as for `run --proxy`. Starts it on two nodes of an embedded
    cluster, or installs it on a kind cluster of two nodes (--backend kind). Is the recipe right, does the program
    start, get ready, work on everything; is a Service reached, is a removed endpoint left, are hints followed, also
    when they change?

    A change is waited for up to 10 s, or as long as the proxy declares; --time-scale multiplies that.

    Of what does not hold all logs are kept, by default in ./trafficdist-results/checks. It is no run: nothing here
    makes a proxy certifiable.
    """
    settings = resolve({**by_name(options), "proxy": proxy}, backend="netns")
    if settings.backend == "kubeconfig":
        raise UsageError("--backend kubeconfig: a check is of a proxy that it starts; allowed: netns, kind")

    from harness.model.escaping import for_terminal
    from harness.run.proxy_check import check as checked

    return int(checked(settings, lambda text: click.echo(for_terminal(text))))


@proxy.command(
    epilog=examples(
        "proxy init mine.yaml",
        "proxy init mine.yaml --name mine --command 'mine {kubeconfig} {node}' --ready 'http 10256 /healthz'",
    )
)
@click.argument("file", type=FILE, default="mine.yaml")
@_answers
@click.option("--force", is_flag=True, help="Replace the file if it is there.")
def init(file: Path, *, force: bool, **given: str | None) -> None:
    """Ask a few questions about a proxy, and write a recipe with comments. [mine.yaml]

    What is given as an option is not asked. Without a terminal, answers are read from standard input, and after its end
    the others are the usual ones.
    """
    _refuse(file, force=force)
    from harness.recipes.drafting import Draft

    answers = {each.key: _answer(each, given[each.key]) for each in _QUESTIONS}
    text = Draft(**answers).as_text(str(file))
    try:
        with file.open("w" if force else "x", encoding="utf-8") as opened:
            opened.write(text)
    except OSError as error:
        raise UsageError(f"proxy file {shown(file)}: cannot be written: {error.strerror}") from None
    click.echo(f"{shown(file)} is written. Next: trafficdist proxy check {shown(file)}")


def _refuse(file: Path, *, force: bool) -> None:
    """Raise `UsageError` for what would not be written, or not be read as a recipe, before anything is asked."""
    if file.suffix not in (".yaml", ".yml"):
        raise UsageError(f"proxy file {shown(file)}: want a name that ends in .yaml")
    if not str(file).isprintable():
        raise UsageError(f"proxy file {shown(file)}: want a name of letters that can be printed")
    if is_there(file) and not force:
        raise UsageError(f"proxy file {shown(file)}: is there already; --force replaces it")
    if not is_there(file.parent):
        raise UsageError(f"proxy file {shown(file)}: there is no folder {shown(file.parent)}")


def _answer(question: _Question, given: str | None) -> Any:
    """Return the value of an answer: that of the option, or of somebody who is asked until it is right."""
    if given is None:
        try:
            return click.prompt(
                question.text,
                default=question.default,
                show_default=bool(question.default),
                value_proc=lambda answer: _asked(question, answer),
                err=True,
            )
        except click.Abort as ended:
            if sys.stdin.isatty() or not isinstance(ended.__context__, EOFError):
                raise
            click.echo(err=True)
        if question.default is None:
            raise UsageError(f"--{question.name} is missing, and nobody answers")
        given = question.default
    try:
        return _read(question, given)
    except UsageError as error:
        raise UsageError(f"--{question.name}: {error}") from None


def _asked(question: _Question, answer: str) -> Any:
    try:
        return _read(question, answer)
    except UsageError as error:
        raise click.UsageError(str(error)) from None  # click says it, and asks again


def _read(question: _Question, answer: str) -> Any:
    from harness.recipes.drafting import read_answer
    from harness.run import suite_files

    value = read_answer(question.key, answer)
    if question.key == "features":
        known = list(suite_files.features())
        for name in value:
            if name not in known:
                raise UsageError(unknown_name(name, known, "feature"))
    return value
