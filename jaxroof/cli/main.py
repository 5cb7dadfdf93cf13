"""The command line: a group whose commands are imported when called."""

import importlib
import shlex
import signal
import sys
from collections.abc import Sequence
from typing import NoReturn

import click

from jaxroof import __version__
from jaxroof.cli import process
from jaxroof.errors import InputError, NotGiven, nearest, printable
from jaxroof.limits import out_of_memory

EXAMPLES = """\b
Examples:
  jaxroof search --model llama3.1-405b --system h100-nvs8 --gpus 2048 \\
      --batch 2048
  jaxroof layers --model llama3.1-405b --system h100-nvs8 \\
      --plan dp=32,tp=8,pp=16
  jaxroof run sweeps/gpt3_hbm.toml -o map.nc
  jaxroof show b200-nvs8
"""
COMMANDS = {  # the module of that name in this package, and its line in the help
    "search": "Print the fastest plans of a cluster, and what binds them.",
    "compare": "Print the best plans of systems and splits side by side.",
    "explain": "Print what binds the best plan, and where that changes.",
    "pareto": "Print what more memory buys.",
    "design": "Find the machine that a budget should buy.",
    "serve": "Print which plan serves a model within limits.",
    "budget": "Find the accelerators that train by a deadline for least.",
    "fit": "Print whether a training step fits, stage by stage.",
    "layers": "Print what every operation of one layer costs.",
    "schedule": "Compare the pipeline schedules of a plan.",
    "trace": "Write or draw every operation of an MLP's step.",
    "roofline": "Print what binds an operator, and from which size on.",
    "collective": "Print how long one collective takes, and by which algorithm.",
    "evaluate": "Ask an estimator every row of a CSV file.",
    "validate": "Print the error against what others measured.",
    "calibrate": "Fit few constants to your own measured steps.",
    "run": "Run a sweep file and print what it found.",
    "rerun": "Answer a stored question again, and compare.",
    "plot": "Draw a file of results, or a sweep file.",
    "report": "Write one page of HTML that shows stored results.",
    "list": "List what the catalogue holds, and what can be asked.",
    "show": "Show an entry of the catalogue, or an estimator.",
    "app": "Open a page in the browser that answers live.",
}


class LazyGroup(click.Group):
    """A group whose commands are modules, each imported when called (click's own pattern)."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        """Return the names of the commands, in the order of the table."""
        return list(COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        """Return a command by name, None if there is none."""
        if cmd_name not in COMMANDS:
            return None
        command: click.Command = importlib.import_module(f"jaxroof.cli.commands.{cmd_name}").command
        return command

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        """Return the command that was typed.

        Raises: UsageError with the nearest name.
        """
        near = None if args[0] in COMMANDS else nearest(args[0], COMMANDS)
        if near is not None:
            raise click.UsageError(f"No such command {args[0]!r}. Did you mean {near!r}?", ctx)
        return super().resolve_command(ctx, args)

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Write one line per command without importing any."""
        with formatter.section("Commands"):
            formatter.write_dl(list(COMMANDS.items()))


@click.group(
    cls=LazyGroup, epilog=EXAMPLES, context_settings={"help_option_names": ["-h", "--help"]}
)
@click.version_option(__version__, prog_name="jaxroof")
def cli() -> None:
    """Find the fastest way to split a transformer's training over accelerators."""


def main(arguments: Sequence[str] | None = None) -> NoReturn:
    """Run the command line: exit 0 done, 1 no plan or step time, 2 bad input, 130 stopped."""
    before = signal.getsignal(signal.SIGINT)
    process.prepare_streams()
    try:
        _run(list(sys.argv[1:] if arguments is None else arguments))
    except (KeyboardInterrupt, click.Abort) as error:
        _stopped(str(error.__cause__ or error), alone=arguments is None)
    except SystemExit:
        raise
    except BaseException:
        if process.interrupted():  # a library made another error of it
            _stopped(alone=arguments is None)
        raise
    finally:
        process.restore_interrupts(before)


def _run(typed: Sequence[str]) -> NoReturn:
    """Run the command line, and say in a line what is wrong with its input."""
    try:
        line = shlex.join(["jaxroof", *typed])  # files that are written say so
        cli.main(args=[*typed], prog_name="jaxroof", standalone_mode=False, obj=line)
        sys.stdout.flush()
    except InputError as error:
        _end(f"{error}{_option_for(error)}", 2)
    except click.exceptions.NoArgsIsHelpError as error:
        click.echo(error.format_message())
    except click.Abort:
        raise
    except click.ClickException as error:
        _end(str(InputError(error.format_message())), 2)  # long words are cut
    except OSError as error:
        process.silence(sys.stdout)
        _end(f"cannot write the output: {error.strerror or error}", 2)
    except Exception as error:
        found = out_of_memory(error, "expected a smaller question, or more memory")
        if process.interrupted() or found is error:
            raise
        _end(str(found), 2)
    sys.exit(0)


def _stopped(what: str = "", *, alone: bool) -> NoReturn:
    """Say that the command was interrupted; ``alone`` in its process, it waits for no thread."""
    process.interrupt_once()
    _say(f"interrupted: {what or 'nothing half-written was left behind'}")
    if alone:
        process.leave(130)
    sys.exit(130)


def _option_for(error: InputError) -> str:
    """Return the option that gives a number which the input lacks, where it has one."""
    paths = error.paths if isinstance(error, NotGiven) else ()
    return "; give it with --sequence" if "model.sequence" in paths else ""


def _end(message: str, code: int) -> NoReturn:
    _say(message)
    sys.exit(code)


def _say(message: str) -> None:
    click.echo(f"jaxroof: {printable(' '.join(message.split()))}", err=True)
