"""Options that several commands share."""

from typing import Any

import click

SPLITS = ("1d", "summa", "context")  # named here too, so that help needs no JAX; a test compares
split_option = click.option(
    "--split",
    default=SPLITS[0],
    show_default=True,
    metavar="NAME",
    help=f"{', '.join(SPLITS[:-1])} or {SPLITS[-1]}.",
)


def question_options(command: Any) -> Any:
    """Add the options of a question about one model on one system."""
    options = [
        click.option("--model", "model_name", required=True, metavar="M", help="Name or file."),
        click.option("--system", "system_name", required=True, metavar="S", help="Name or file."),
        click.option("--format", "number_format", metavar="F", help="Number format of the peak."),
        split_option,
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


def comparison_options(command: Any) -> Any:
    """Add the options of a question about several cluster sizes."""
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
