"""The commands `trafficdist proxy init` and `proxy check`: write a recipe for a proxy, and check it step by step."""

import json
import shlex
import string
from importlib import resources
from pathlib import Path
from typing import Any

import click

from harness.commands.arguments import FILE, as_arguments, completer_of, with_options
from harness.commands.cli import examples
from harness.errors import UsageError
from harness.model.files import is_there, shown
from harness.settings.options import BY_NAME, by_name, resolve

_USED = ("mode", "backend", "control-plane", "kubernetes-version", "feature-gates", "families", "kind-image", "cni",
         "probes", "keep-cluster", "time-scale", "keep", "output-dir")  # fmt: skip


@click.group(epilog=examples("proxy init mine.yaml", "proxy check mine.yaml", "proxy check kube-proxy"))
def proxy() -> None:
    """Write a recipe for your own proxy, and check it step by step."""


@proxy.command(
    epilog=examples(
        "proxy check mine.yaml",
        "proxy check reference",
        "proxy check kube-proxy:1.34 --mode iptables",
        "proxy check mine.yaml --backend kind",
        codes="\b\nExit codes, in addition to those of `run`:\n"
        "   0  all steps succeed, and each MUST of the quick run is met\n"
        "   1  a step fails, or a MUST is not met\n  10  a step or a MUST is inconclusive\n"
        "  12  the proxy does not start or does not become ready",
    )
)
@click.argument("proxy", metavar="PROXY", shell_complete=completer_of(BY_NAME["proxy"]))
@with_options([BY_NAME[name] for name in _USED])
def check(proxy: str, **options: Any) -> int:
    """Check a proxy step by step, then run the requirements of `run --quick`.

    PROXY is a recipe, reference, or kube-proxy[:VERSION], as for `run --proxy`. The steps boot two nodes, and check
    that the program starts, becomes ready and applies changes, that a Service is reachable, and that hints and changes
    of hints have an effect. At the first failed step, the command suggests what to examine next, and stores logs and
    rules in ./trafficdist-results/checks. On a kind cluster (--backend kind) the command stops after the steps.

    A step waits up to 3 s for a change, multiplied by --time-scale. A successful check does not certify the proxy.
    """
    settings = resolve({**by_name(options), "proxy": proxy}, backend="netns")
    if settings.backend == "kubeconfig":
        raise UsageError("--backend kubeconfig: proxy check starts the proxy itself; allowed: netns, kind")

    from harness.commands.proxy_check import check as check_steps
    from harness.model.escaping import for_terminal
    from harness.plugin.suite import run_pytest
    from harness.run.plan import check_claims

    check_claims(settings)
    code = check_steps(settings, lambda text: click.echo(for_terminal(text)))
    if code or settings.backend == "kind":
        return int(code)
    arguments = ["--td-quick", "--td-backend=netns", f"--td-proxy={proxy}"]
    for name in _USED:
        if name != "backend":
            arguments += as_arguments(BY_NAME[name], options[BY_NAME[name].key])
    return run_pytest(arguments)


@proxy.command(epilog=examples("proxy init mine.yaml"))
@click.argument("file", type=FILE, default="mine.yaml")
@click.option("--force", is_flag=True, help="Overwrite FILE if it exists.")
def init(file: Path, *, force: bool) -> None:
    """Write a recipe to FILE, with a comment on each key, for you to edit. [default: mine.yaml]

    The recipe names the proxy after FILE.
    """
    from harness.model import strict_yaml
    from harness.recipes.recipe import OF_PROXY, parse_recipe

    _check_target(file, force=force)
    text = resources.files("harness.recipes").joinpath("template.yaml").read_text(encoding="utf-8")
    name = json.dumps(file.stem, ensure_ascii=False)  # JSON is YAML
    filled = string.Template(text).substitute(name=name, file=shlex.quote(str(file)))
    parse_recipe(strict_yaml.parse(filled, "the recipe"), OF_PROXY)
    try:
        with file.open("w" if force else "x", encoding="utf-8") as opened:
            opened.write(filled)
    except OSError as error:
        raise UsageError(f"proxy file {shown(file)}: cannot be written: {error.strerror}") from None
    click.echo(f"Wrote {shown(file)}. Next: edit it, then run `trafficdist proxy check {shown(file)}`")


def _check_target(file: Path, *, force: bool) -> None:
    if file.suffix not in (".yaml", ".yml"):
        raise UsageError(f"proxy file {shown(file)}: expected a name that ends in .yaml")
    if not str(file).isprintable():
        raise UsageError(f"proxy file {shown(file)}: expected a name of printable characters")
    if is_there(file) and not force:
        raise UsageError(f"proxy file {shown(file)}: already exists; --force overwrites it")
    if not is_there(file.parent):
        raise UsageError(f"proxy file {shown(file)}: the folder {shown(file.parent)} does not exist")
