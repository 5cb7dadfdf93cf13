"""The command line. Heavy imports wait until a command needs them."""

import sys
from collections.abc import Sequence
from typing import Any, NoReturn

import click

from jaxroof import __version__
from jaxroof.errors import InputError
from jaxroof.shell import process, systems
from jaxroof.shell.cli_design import design
from jaxroof.shell.cli_explain import explain
from jaxroof.shell.cli_roofline import roofline
from jaxroof.shell.cli_rows import evaluate
from jaxroof.shell.cli_schedule import schedule
from jaxroof.shell.cli_trace import trace
from jaxroof.shell.entries import entry_rows, print_entries
from jaxroof.shell.process import prepare_streams, silence

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
        click.option(
            "--split", default="1d", show_default=True, metavar="NAME", help="1d, summa or context."
        ),
        click.option(
            "--set", "sets", multiple=True, metavar="PATH=VALUE",
            help="Change a field, such as system.hbm_capacity='192 GB' or attention=unfused.",
        ),
        click.option(
            "-o", "--output", metavar="FILE",
            help="Write to a .csv, .json or .nc file; draw layers in a .png, .svg or .pdf.",
        ),
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
@click.option("--uncertain", metavar="FILE", help="Draw inputs from the ranges of a TOML table.")
def search(**options: Any) -> None:
    """Print the fastest plans of a cluster, and what binds them."""
    systems.check_options(options)
    from jaxroof.shell.commands import search_command

    process.start()
    sys.exit(search_command(**options))


@cli.command(
    epilog="""\b
Examples:
  jaxroof layers --model gpt3-1t --system h200-nvs4 --plan dp=64,tp=4,pp=8,microbatch=1
  jaxroof layers --estimator unfused --model gpt3 --system a100-unfused --plan tp=4 -o layer.csv
"""
)
@_common
@click.option(
    "--plan", "plan_text", required=True, metavar="PLAN", help="dp=64,tp=4,pp=8,microbatch=1."
)
@click.option(
    "--estimator", default="training", show_default=True, metavar="NAME",
    help="training, or unfused: each operator alone, in two tables.",
)  # fmt: skip
def layers(**options: Any) -> None:
    """Print what every operation of one layer costs."""
    systems.check_options(options)
    from jaxroof.shell.blocks import one_layer

    process.start()
    one_layer(**options)


@cli.command(
    epilog="""\b
Examples:
  jaxroof run sweeps/gpt3_hbm.toml -o map.nc
  jaxroof run sweeps/gpt3_hbm.toml -o map.zarr
"""
)
@click.argument("file", metavar="FILE.toml")
@click.option("-o", "--output", metavar="FILE", help="Write to a .csv, .json, .nc or .zarr file.")
@click.option(
    "--chunk", type=int, metavar="N", help="Most points of a chunk (.zarr; .csv of every plan)."
)
@click.option("--overwrite", is_flag=True, help="Start such a file anew, whatever it holds.")
def run(**options: Any) -> None:
    """Run a sweep file and print what it found.

    A .zarr file that was stopped is gone on with; so is a .csv file of every plan, which several
    sweeps may share.
    """
    systems.check_sweep(options["file"])
    from jaxroof.shell.runs import run_command

    process.start()
    sys.exit(run_command(**options))


@cli.command(
    epilog="""\b
Examples:
  jaxroof plot map.nc
  jaxroof plot sweeps/p7_gpt3_bandwidth_capacity.toml -o map.svg
  jaxroof plot days.nc --kind normalised_throughput -o throughput.png
"""
)
@click.argument("file", metavar="FILE")
@click.option("-o", "--output", metavar="FILE", help="A .png, .svg or .pdf.  [default: FILE.png]")
@click.option("--kind", metavar="NAME", help="Picture to draw.  [default: what the file asks for]")
@click.option("--at", "points", multiple=True, metavar="DIM=VALUE", help="Cut at one point.")
def plot(**options: Any) -> None:
    """Draw a file of results, or a sweep file, which is run first."""
    if options["file"].endswith(".toml"):
        systems.check_sweep(options["file"])
    from jaxroof.shell.pictures import plot_command

    process.start()
    plot_command(**options)


def _what_if(command: Any) -> Any:
    options = [
        click.option("--gpus", required=True, metavar="N[,N...]", help="Accelerators."),
        click.option("--batch", required=True, metavar="B", help="Sequences of one step."),
        click.option("--format", "number_format", metavar="F", help="Number format of the peak."),
        click.option("--where", default="", metavar="RULES", help="Constraints: 'tensor<=8'."),
        click.option("--set", "sets", multiple=True, metavar="PATH=VALUE", help="Change a field."),
        click.option("-o", "--output", metavar="FILE", help="A .png .svg .pdf .csv .json or .nc."),
    ]  # fmt: skip
    for option in reversed(options):
        command = option(command)
    return command


@cli.command(
    short_help="Print the best plans of systems and splits side by side.",
    epilog="""\b
Examples:
  jaxroof compare --model gpt3-1t --gpus 2048 --batch 4096 --system a100-nvs4,h200-nvs4,b200-nvs8
  jaxroof compare --model gpt3-1t --gpus 512,4096 --batch 4096 --system h200-nvs4 -o compare.png
""",
)
@click.option("--model", "model_names", required=True, metavar="M[,M...]", help="Names or files.")
@click.option("--system", "system_names", required=True, metavar="S[,S...]", help="Names or files.")
@click.option(
    "--split", "splits", default="1d,summa,context", show_default=True, metavar="NAME[,NAME...]",
    help="How a layer is split.",
)  # fmt: skip
@_what_if
def compare(**options: Any) -> None:
    """Print the best plan of each system and split side by side, and why they differ."""
    systems.check_options(options)
    from jaxroof.shell.whatif import compare_command

    process.start()
    sys.exit(compare_command(**options))


@cli.command(
    short_help="Print what more memory buys.",
    epilog="""\b
Examples:
  jaxroof pareto --model gpt3-1t --system h200-nvs4 --gpus 2048 --batch 4096 -o stairs.png
  jaxroof pareto --model gpt3-1t --system b200-nvs8 --gpus 512,2048 --batch 4096 --days 30
""",
)
@click.option("--model", "model_name", required=True, metavar="M", help="Name or file.")
@click.option("--system", "system_name", required=True, metavar="S", help="Name or file.")
@click.option(
    "--split", default="1d", show_default=True, metavar="NAME", help="1d, summa or context."
)
@click.option("--days", metavar="T", help="Find the smallest machine that trains in T days.")
@click.option(
    "--gain", default="1%", show_default=True, metavar="P", help="Speed that a stair must add."
)
@_what_if
def pareto(**options: Any) -> None:
    """Print what more memory buys: the staircase of step time against memory."""
    systems.check_options(options)
    from jaxroof.shell.whatif import pareto_command

    process.start()
    sys.exit(pareto_command(**options))


@cli.command(name="list", short_help="List what the catalogue holds, and what can be asked.")
@click.argument("kind", metavar="[models|mlps|systems|estimators]", default="")
def list_command(kind: str) -> None:
    """List the models, MLPs or systems of the catalogue, or what can be asked; alone, the kinds."""
    from jaxroof import catalog

    if kind in ("", "estimators"):
        from jaxroof.shell.questions import list_estimators, list_kinds

        list_estimators() if kind else list_kinds()
        return
    if kind == "systems":
        click.echo("\n".join(systems.list_systems()))
        return
    rows = [(name, catalog.describe(kind, name)) for name in catalog.names(kind)]
    print_entries([(name, f"{entry['title']}: {_summary(kind, entry)}") for name, entry in rows])


def _summary(kind: str, entry: dict[str, Any]) -> str:
    fields = ("layers", "hidden", "heads", "sequence") if kind == "models" else ("layers", "hidden")
    return ", ".join(f"{field} {entry[field]}" for field in fields)


@cli.command(short_help="Show an entry, an estimator, or what a file asks.")
@click.argument("name", metavar="NAME|FILE.toml")
def show(name: str) -> None:
    """Show an entry of the catalogue, with its source, or what an estimator asks and answers.

    A file is shown as the entry that it is, or by what it asks: a sweep, a design or ranges.
    """
    from jaxroof import catalog

    if name.endswith(".toml"):
        from jaxroof.shell.questions import show_file

        show_file(name)
        return
    known = {entry: kind for kind in ("models", "mlps", "systems") for entry in catalog.names(kind)}
    if name not in known:
        from jaxroof.shell.questions import show_estimator

        show_estimator(name, known)
        return
    print_entries(entry_rows(catalog.describe(known[name], name)))


cli.add_command(roofline)
cli.add_command(evaluate)
cli.add_command(explain)
cli.add_command(schedule)
cli.add_command(trace)
cli.add_command(design)


def main(arguments: Sequence[str] | None = None) -> NoReturn:
    """Run the command line: exit 0 done, 1 no plan fits, 2 bad input, 130 interrupted."""
    prepare_streams()
    try:
        cli.main(args=arguments, prog_name="jaxroof", standalone_mode=False)
        sys.stdout.flush()
    except InputError as error:
        _end(str(error), 2)
    except click.exceptions.NoArgsIsHelpError as error:
        click.echo(error.format_message())
    except click.ClickException as error:
        _end(error.format_message(), 2)
    except (KeyboardInterrupt, click.Abort) as error:
        what = str(error.__cause__ or error) or "nothing half-written was left behind"
        _end(f"interrupted: {what}", 130)
    except OSError as error:
        silence(sys.stdout)
        _end(f"cannot write the output: {error.strerror or error}", 2)
    sys.exit(0)


def _end(message: str, code: int) -> NoReturn:
    click.echo(f"jaxroof: {' '.join(message.split())}", err=True)
    sys.exit(code)
