"""The command line. Heavy imports wait until a command needs them."""

import _thread
import contextlib
import io
import os
import pathlib
import signal
import sys
import threading
from collections.abc import Sequence
from typing import Any, NoReturn

import click

from jaxroof import __version__
from jaxroof.errors import InputError

EXAMPLES = """\b
Examples:
  jaxroof search --model gpt3-1t --system h200-nvs4 --gpus 2048 --batch 4096 --split 1d
  jaxroof layers --model gpt3-1t --system h200-nvs4 --plan dp=64,tp=4,pp=8,microbatch=1
  jaxroof run sweeps/gpt3_hbm.toml -o map.nc
  jaxroof show b200-nvs8
"""


@click.group(epilog=EXAMPLES, context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(__version__, prog_name="jaxroof")
def cli() -> None:
    """Find the fastest way to split a transformer's training over accelerators."""


def _common(command: Any) -> Any:
    options = [
        click.option("--model", "model_name", required=True, metavar="M", help="Name or file."),
        click.option("--system", "system_name", required=True, metavar="S", help="Name or file."),
        click.option("--format", "number_format", metavar="F", help="Number format of the peak."),
        click.option("--split", default="1d", show_default=True, metavar="NAME", help="1d so far."),
        click.option(
            "--set", "sets", multiple=True, metavar="PATH=VALUE",
            help="Change a field, such as system.hbm_capacity='192 GB' or attention=unfused.",
        ),
        click.option("-o", "--output", metavar="FILE", help="Write to a .csv, .json or .nc file."),
    ]  # fmt: skip
    for option in reversed(options):
        command = option(command)
    return command


@cli.command(
    epilog="""\b
Examples:
  jaxroof search --model gpt3-1t --system h200-nvs4 --gpus 2048 --batch 4096 --split 1d
  jaxroof search --model gpt3-1t --system b200-nvs8 --gpus 512,1024,2048 --batch 4096
  jaxroof search --model gpt3-1t --system h200-nvs4 --gpus 2048 --batch 4096 --mine tp=8,pp=8
  jaxroof search --model gpt3-1t --system h200-nvs4 --gpus 2048 --batch 4096 --all -o plans.csv
"""
)
@_common
@click.option("--gpus", required=True, metavar="N[,N...]", help="Accelerators to split over.")
@click.option("--batch", required=True, metavar="B", help="Sequences of one optimizer step.")
@click.option("--top", default=5, show_default=True, help="Plans to print.")
@click.option("--placements", is_flag=True, help="Every placement of a split, not its best alone.")
@click.option("--where", default="", metavar="RULES", help="Constraints: 'tensor<=8,pipeline=4'.")
@click.option("--mine", metavar="PLAN", help="Rank your own plan: tp=8,pp=8,microbatch=1.")
@click.option(
    "--within", default="2%", show_default=True, metavar="P", help="What counts as close."
)
@click.option(
    "--objective",
    metavar="NAME",
    help="Result to improve; ties go to the leaner.  [default: step_time]",
)
@click.option("--all", "everything", is_flag=True, help="Write every plan, feasible or not, to -o.")
def search(**options: Any) -> None:
    """Print the fastest plans of a cluster, and what binds them."""
    from jaxroof.commands import search_command

    _start()
    sys.exit(search_command(**options))


@cli.command()
@_common
@click.option(
    "--plan", "plan_text", required=True, metavar="PLAN", help="dp=64,tp=4,pp=8,microbatch=1."
)
def layers(**options: Any) -> None:
    """Print what every operation of one layer costs."""
    from jaxroof.commands import layers_command

    _start()
    layers_command(**options)


@cli.command()
@click.argument("file", metavar="FILE.toml")
@click.option("-o", "--output", metavar="FILE", help="Write to a .csv, .json or .nc file.")
def run(file: str, output: str | None) -> None:
    """Run a sweep file and print what it found."""
    from jaxroof.commands import run_command

    _start()
    sys.exit(run_command(file, output))


@cli.command(name="list")
@click.argument("kind", metavar="models|systems")
def list_command(kind: str) -> None:
    """List the models or systems of the catalogue."""
    from jaxroof import catalog

    rows = [(name, catalog.describe(kind, name)) for name in catalog.names(kind)]
    wide = max(len(name) for name, _ in rows)
    for name, entry in rows:
        click.echo(f"{name:<{wide}}  {entry['title']}: {_summary(kind, entry)}")


def _summary(kind: str, entry: dict[str, Any]) -> str:
    if kind == "models":
        fields = ("layers", "hidden", "heads", "sequence")
        return ", ".join(f"{field} {entry[field]}" for field in fields)
    return (
        f"{entry['matrix_flops']}, {entry['hbm_capacity']} at {entry['hbm_bandwidth']}, "
        f"fast domain {entry['fast_domain']}"
    )


@cli.command()
@click.argument("name")
def show(name: str) -> None:
    """Show an entry of the catalogue, with its source."""
    from jaxroof import catalog
    from jaxroof.errors import unknown

    known = {entry: kind for kind in ("models", "systems") for entry in catalog.names(kind)}
    if name not in known:
        raise unknown("", name, "model or system", known)
    for key, value in catalog.describe(known[name], name).items():
        if isinstance(value, dict):
            value = ", ".join(f"{k} {v}" for k, v in value.items())
        click.echo(f"{key:<17} {str(value).strip()}")


def _start() -> None:
    """Set up JAX for a process of our own: a compile cache, a device for each core."""
    import jax

    folder = os.environ.get("JAXROOF_CACHE") or _cache_folder()
    try:
        pathlib.Path(folder).mkdir(parents=True, exist_ok=True)
    except OSError:
        folder = ""  # a home that cannot be written: compile anew each time
    if folder:
        jax.config.update("jax_compilation_cache_dir", folder)
        jax.config.update("jax_persistent_cache_min_compile_time_secs", 0.1)
        jax.config.update("jax_persistent_cache_min_entry_size_bytes", 0)
    jax.config.update("jax_num_cpu_devices", _cores())


def _cores() -> int:
    usable = getattr(os, "sched_getaffinity", None)
    return len(usable(0)) if usable else os.cpu_count() or 1


def _cache_folder() -> str:
    home = os.environ.get("XDG_CACHE_HOME") or os.path.join(os.path.expanduser("~"), ".cache")
    return os.path.join(home, "jaxroof")


def main(arguments: Sequence[str] | None = None) -> NoReturn:
    """Run the command line: exit 0 done, 1 no plan fits, 2 bad input, 130 interrupted."""
    _prepare_streams()
    try:
        cli.main(args=arguments, prog_name="jaxroof", standalone_mode=False)
        sys.stdout.flush()
    except InputError as error:
        _end(str(error), 2)
    except click.ClickException as error:
        _end(error.format_message(), 2)
    except (KeyboardInterrupt, click.Abort):
        _end("interrupted: nothing half-written was left behind", 130)
    except OSError as error:
        _silence(sys.stdout)
        _end(f"cannot write the output: {error.strerror or error}", 2)
    sys.exit(0)


def _prepare_streams() -> None:
    """Print what a stream can; die of a closed pipe as other tools do; lose no Ctrl-C."""
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="replace")
    if hasattr(signal, "SIGPIPE") and threading.current_thread() is threading.main_thread():
        signal.signal(signal.SIGPIPE, signal.SIG_DFL)
    before = sys.unraisablehook

    def again(what: Any) -> None:
        """Interrupt once more where a callback of a library swallowed the first Ctrl-C."""
        if what.exc_type is None or not issubclass(what.exc_type, KeyboardInterrupt):
            before(what)
            return
        timer = threading.Timer(0.02, _thread.interrupt_main)
        timer.daemon = True
        timer.start()

    sys.unraisablehook = again


def _silence(stream: Any) -> None:
    """Let a stream that cannot be written end without a word."""
    with contextlib.suppress(OSError, ValueError, AttributeError):
        os.dup2(os.open(os.devnull, os.O_WRONLY), stream.fileno())


def _end(message: str, code: int) -> NoReturn:
    click.echo(f"jaxroof: {' '.join(message.split())}", err=True)
    sys.exit(code)
