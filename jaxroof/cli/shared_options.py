"""Options that several commands share."""

from collections.abc import Callable
from typing import Any

import click

from jaxroof.cli import completion
from jaxroof.cli.command import StudyOption
from jaxroof.cli.counts import read_margin, read_sequence
from jaxroof.cli.detail import remember
from jaxroof.errors import refusal


class StepOption(click.Option):
    """An option that a training step needs, and an estimator of one's own does not."""

    def value_is_missing(self, value: Any) -> bool:
        """Return whether a value that is needed is not given."""
        context = click.get_current_context()
        own = context.command.name == "search" and is_own(context.params.get("estimator", ""))
        return not own and super().value_is_missing(value)


def is_own(estimator: str) -> bool:
    """Return whether an estimator is one's own, MODULE:NAME."""
    return ":" in estimator


SPLITS = ("1d", "summa", "context")  # named here too, so that help needs no arrays; a test compares
OPTIONS = {
    "model": click.option(
        "--model", "model_name", required=True, cls=StepOption, metavar="M", help="Name or file.",
        shell_complete=completion.models,
    ),
    "system": click.option(
        "--system", "system_name", required=True, cls=StepOption, metavar="S", help="Name or file.",
        shell_complete=completion.systems,
    ),
    "estimator": click.option(
        "--estimator", default="training", show_default=True, is_eager=True, metavar="NAME",
        help="training: models of today; published: the study's.",
    ),
    "format": click.option(
        "--format", "number_format", metavar="F", cls=StudyOption,
        help="Number format of the peak.",
    ),
    "split": click.option(
        "--split", default=SPLITS[0], metavar="NAME", cls=StudyOption,
        help=f"{', '.join(SPLITS[:-1])} or {SPLITS[-1]}.  [default: {SPLITS[0]}]",
    ),
    "set": click.option(
        "--set", "sets", multiple=True, metavar="PATH=VALUE",
        help="Change a field, such as system.hbm_capacity='192 GB' or attention=unfused.",
    ),
    "gpus": click.option(
        "--gpus", required=True, cls=StepOption, metavar="N[,N...]",
        help="Accelerators to split over.",
    ),
    "batch": click.option(
        "--batch", required=True, cls=StepOption, metavar="B",
        help="Sequences of one optimizer step.",
    ),
    "sequence": click.option(
        "--sequence", metavar="N", callback=read_sequence,
        help="Tokens of one sequence.  [default: as the model was trained]",
    ),
    "where": click.option(
        "--where", default="", metavar="RULES", help="Constraints: 'tp<=8,pp=4'."
    ),
    "margin": click.option(
        "--margin", metavar="P", callback=read_margin,
        help="Share of the memory to leave free, such as 10%.",
    ),
    "json": click.option(
        "--json", is_flag=True, expose_value=False, callback=remember,
        help="One JSON object instead, as -o FILE.json writes it.",
    ),
    "quiet": click.option(
        "--quiet", is_flag=True, expose_value=False, callback=remember,
        help="The table, or the one answer, alone.",
    ),
    "verbose": click.option(
        "--verbose", is_flag=True, expose_value=False, callback=remember,
        help="Counts, proofs and what was assumed, too.",
    ),
    "output": click.option(
        "-o", "--output", metavar="FILE", help="A .png .svg .pdf .csv .json or .nc."
    ),
}  # fmt: skip


def refuse_study_options(estimator: str, **more: str) -> None:
    """Check that no option of the study is given, unless its estimator is asked.

    Arguments: ``more`` are further options of the study, parameter -> option.
    Raises: InputError that names the first.
    """
    context = click.get_current_context()
    for name, option in (STUDY | more).items() if estimator != "published" else ():
        if context.get_parameter_source(name) not in (None, click.core.ParameterSource.DEFAULT):
            raise refusal(option, "belongs to --estimator published; expected it with that")


STUDY = {"number_format": "--format", "split": "--split"}


def shared(*names: str) -> Callable[[Any], Any]:
    """Return a decorator that adds some of the shared options to a command, in their order."""

    def add(command: Any) -> Any:
        for name in reversed(names):
            command = OPTIONS[name](command)
        return command

    return add
