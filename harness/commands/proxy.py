"""The commands `trafficdist proxy`: the first half hour of who writes a proxy."""

from __future__ import annotations

from typing import Any

import click

from harness.commands import values
from harness.commands.from_options import by_name, with_options
from harness.commands.front import examples
from harness.settings.options import BY_NAME, resolve

_USED = ("mode", "kubernetes-version", "feature-gates", "families", "time-scale", "keep", "output-dir")


@click.group(epilog=examples("proxy check mine.yaml", "proxy check kube-proxy"))
def proxy() -> None:
    """Take the first steps with a proxy of one's own."""


@proxy.command(
    epilog=examples(
        "proxy check mine.yaml",
        "proxy check reference",
        "proxy check kube-proxy:1.34 --mode iptables",
        codes="\b\nExit codes:\n   0  all steps hold\n   1  the proxy does something else than is expected\n"
        "   4  the recipe or an option is wrong\n  10  it could not be told\n"
        "  12  the proxy does not start, or does not get ready",
    )
)
@click.argument("proxy", metavar="PROXY", shell_complete=values.of_option(BY_NAME["proxy"]))
@with_options([BY_NAME[name] for name in _USED])
def check(proxy: str, **options: Any) -> int:
    """Check in seconds how far a proxy comes, and say of each step whether it holds.

    PROXY is a recipe, reference, or kube-proxy[:VERSION], as for `run --proxy`. Starts it on two nodes of an embedded
    cluster: is the recipe right, does the program start, get ready, work on everything; is a Service reached, is a
    removed endpoint left, are hints followed, also when they change?

    A change is waited for up to 10 s, or as long as the proxy declares; --time-scale multiplies that.

    Of what does not hold all logs are kept, by default in ./trafficdist-results/checks. It is no run: nothing here
    makes a proxy certifiable.
    """
    settings = resolve({**by_name(options), "proxy": proxy, "backend": "netns"})

    from harness.model.escaping import for_terminal
    from harness.run.proxy_check import check as checked

    return int(checked(settings, lambda text: click.echo(for_terminal(text))))
