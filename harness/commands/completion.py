"""The command `trafficdist completion`: what a shell reads to complete our commands, options and values."""

from __future__ import annotations

import click
from click.shell_completion import get_completion_class

from harness.commands.front import examples

_PROGRAM = "trafficdist"


@click.command(
    epilog=examples(
        "completion bash > ~/.local/share/bash-completion/completions/trafficdist",
        "completion zsh > ~/.zfunc/_trafficdist    with ~/.zfunc in $fpath, before compinit",
        "completion fish > ~/.config/fish/completions/trafficdist.fish",
    )
)
@click.argument("shell", type=click.Choice(["bash", "zsh", "fish"]))
@click.pass_context
def completion(context: click.Context, shell: str) -> None:
    """Print the script that lets a shell complete commands, options and values.

    For one session: `source <(trafficdist completion bash)`, the same with zsh, and in fish
    `trafficdist completion fish | source`.
    """
    kind = get_completion_class(shell)
    assert kind is not None
    click.echo(kind(context.find_root().command, {}, _PROGRAM, "_TRAFFICDIST_COMPLETE").source())
