"""The command `trafficdist`. Packages add subcommands through entry points of group `trafficdist.commands`."""

import click
from click.shell_completion import get_completion_class

from harness.commands.cleanup import cleanup
from harness.commands.cli import CommandGroup, examples
from harness.commands.components import components
from harness.commands.doctor import doctor
from harness.commands.list_command import list_requirements
from harness.commands.proxy import proxy
from harness.commands.reports import compare, judge, merge, report, verify
from harness.commands.run import run
from harness.model.entry_points import installed


@click.group(
    cls=CommandGroup,
    context_settings={"help_option_names": ["-h", "--help"]},
    epilog=examples("run", "list 'KEP-3015/*'", "cluster up", "run --help"),
)
@click.version_option(package_name="trafficdist")
def main() -> None:
    """Certify implementations of Kubernetes topology-aware Service routing, with real packets."""


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

    For one session in bash, run `source <(trafficdist completion bash)`. In zsh, replace bash with zsh. In fish, run
    `trafficdist completion fish | source`.
    """
    kind = get_completion_class(shell)
    assert kind is not None
    click.echo(kind(context.find_root().command, {}, "trafficdist", "_TRAFFICDIST_COMPLETE").source())


for command in (
    run,
    judge,
    verify,
    merge,
    report,
    list_requirements,
    compare,
    cleanup,
    components,
    proxy,
    doctor,
    completion,
    *(each.load() for each in installed("trafficdist.commands")),
):
    main.add_command(command)
