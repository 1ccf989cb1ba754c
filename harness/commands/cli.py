"""The command group `trafficdist`. If a command fails, it prints `error: …` and exits with the error's code."""

import contextlib
import sys
import traceback
from typing import Any

import click

from harness.errors import DistrustError, HarnessError, NothingSelectedError, UnavailableError, UsageError
from harness.judging.exit_codes import MEANINGS, ExitCode
from harness.model.escaping import for_terminal
from harness.model.neutral_output import neutral_streams
from harness.run.resource_shortage import why_it_cannot_continue
from harness.run.signals import as_interrupts, interrupt_was_reported

EXIT_CODES = "\b\nExit codes:\n" + "\n".join(f"  {int(code):>2}  {meaning}" for code, meaning in MEANINGS.items())

_CODES: tuple[tuple[type[HarnessError], ExitCode], ...] = (
    (UsageError, ExitCode.USAGE),
    (NothingSelectedError, ExitCode.NOTHING_SELECTED),
    (DistrustError, ExitCode.DISTRUST),
    (UnavailableError, ExitCode.DISTRUST),
    (HarnessError, ExitCode.INCONCLUSIVE),
)


class CommandGroup(click.Group):
    def main(self, *args: Any, **kwargs: Any) -> Any:
        with neutral_streams():
            self._run(*args, **kwargs)

    def _run(self, *args: Any, **kwargs: Any) -> Any:
        try:
            with as_interrupts(alone=not args and kwargs.keys() <= {"prog_name"}):
                status = super().main(*args, **{**kwargs, "standalone_mode": False})
        except HarnessError as error:
            sys.exit(_say(str(error), next(code for kind, code in _CODES if isinstance(error, kind))))
        except click.exceptions.NoArgsIsHelpError as error:
            click.echo(error.format_message(), err=True)
            sys.exit(ExitCode.USAGE)
        except click.ClickException as error:
            sys.exit(_say(_sentence(error), ExitCode.USAGE))
        except click.exceptions.Exit as error:
            sys.exit(error.exit_code)
        except (click.Abort, KeyboardInterrupt):
            if not interrupt_was_reported():
                tell("interrupted")
            sys.exit(ExitCode.INTERRUPTED)
        except Exception as error:  # noqa: BLE001  a bug must not have the exit code of an unmet requirement
            if short := why_it_cannot_continue(error):
                sys.exit(_say(short, ExitCode.DISTRUST))
            traceback.print_exc()
            sys.exit(ExitCode.INTERNAL_ERROR)
        sys.exit(status if isinstance(status, int) else 0)


def _sentence(error: click.ClickException) -> str:
    context = getattr(error, "ctx", None)
    return error.format_message() + (f"\nSee `{context.command_path} --help`." if context else "")


def _say(text: str, code: ExitCode) -> ExitCode:
    with contextlib.suppress(OSError):
        click.secho(f"error: {for_terminal(text)}", fg="red", err=True)
    return code


def tell(text: str) -> None:
    click.echo(for_terminal(text), err=True)


def examples(*lines: str, codes: str = "") -> str:
    """Return the examples at the end of a help text, followed by the meaning of the exit codes in `codes`."""
    shown = "\b\nExamples:\n" + "\n".join(f"  trafficdist {line}" for line in lines)
    return "\n\n".join(filter(None, (shown, codes)))
