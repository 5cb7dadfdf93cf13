"""Options that several commands share, and the commands whose bodies import arrays."""

import sys
from collections.abc import Callable
from typing import Any

import click

from jaxroof.cli import completion, process, types
from jaxroof.cli.stored_question import arguments
from jaxroof.errors import refusal
from jaxroof.io.history import of_command

DETAIL = "jaxroof.detail"  # in what a command line remembers
FIELDS = {  # options, and the input that each sets
    "--model": "model",
    "--system": "system",
    "--gpus": "gpus",
    "--batch": "global_batch",
    "--software": "software",
    "--profile": "profile",
}


class Command(click.Command):
    """A command that answers a question: what it writes says who asked, and it ends the process."""

    def invoke(self, ctx: click.Context) -> Any:
        """Run the body; exit with the status that it returns."""
        process.start()
        with of_command(ctx.obj or "", arguments(ctx)):
            sys.exit(super().invoke(ctx) or 0)


class FieldOption(click.Option):
    """An option that is needed where the inputs of the estimator need its field."""

    def value_is_missing(self, value: Any) -> bool:
        """Return whether a value that is needed is not given."""
        if not super().value_is_missing(value):
            return False
        from jaxroof.cli.question import needs  # of what is refused

        name = click.get_current_context().params.get("estimator")
        return name is None or needs(name, FIELDS[self.opts[0]])


def remember(context: click.Context, parameter: click.Parameter, given: bool) -> None:
    """Remember how much is to be printed for the rest of the command.

    Raises: UsageError if another option of the kind was given.
    """
    if not given:
        return
    chosen = str(parameter.name)
    before = context.meta.setdefault(DETAIL, chosen)
    if before != chosen:
        names = " and ".join(f"--{each}" for each in sorted((before, chosen)))
        raise click.UsageError(f"{names} exclude each other; expected one of them", context)


OPTIONS = {
    "model": click.option(
        "--model", "model_name", required=True, cls=FieldOption, metavar="M", help="Name or file.",
        shell_complete=completion.models,
    ),
    "system": click.option(
        "--system", "system_name", required=True, cls=FieldOption, metavar="S",
        help="Name or file.", shell_complete=completion.systems,
    ),
    "estimator": click.option(
        "--estimator", default="training", show_default=True, is_eager=True, metavar="NAME",
        help="One of `jaxroof list estimators` with plans, or MODULE:NAME.",
    ),
    "format": click.option("--format", "number_format", hidden=True),
    "split": click.option("--split", hidden=True),
    "plan": click.option(
        "--plan", "plan_text", required=True, metavar="PLAN", help="dp=16,tp=8,pp=16,mb=1."
    ),
    "set": click.option(
        "--set", "sets", multiple=True, metavar="PATH=VALUE",
        help="Change a field or a choice: system.hbm_capacity='192 GB', attention=unfused.",
    ),
    "gpus": click.option(
        "--gpus", required=True, cls=FieldOption, metavar="N[,N...]", type=types.COUNTS,
        help="Accelerators to split over.", **types.LIST,
    ),
    "batch": click.option(
        "--batch", required=True, cls=FieldOption, metavar="B", type=types.COUNT,
        help="Sequences of one optimizer step.",
    ),
    "sequence": click.option(
        "--sequence", metavar="N", type=types.COUNT,
        help="Tokens of one sequence.  [default: as the model was trained]",
    ),
    "tokens": click.option(
        "--tokens", metavar="N", type=types.TOKENS,
        help="Of the whole training: 15T.  [default: as the model was trained]",
    ),
    "where": click.option(
        "--where", default="", metavar="RULES", help="Constraints: 'tp<=8,pp=4'."
    ),
    "margin": click.option(
        "--margin", metavar="P", type=types.MARGIN,
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
    "trust": click.option(
        "--trust", is_flag=True, help="Run the code of an estimator beside a sweep file."
    ),
}  # fmt: skip


def shared(*names: str) -> Callable[[Any], Any]:
    """Return a decorator that adds some of the shared options to a command, in their order."""

    def add(command: Any) -> Any:
        for name in reversed(names):
            command = OPTIONS[name](command)
        return command

    return add


def settings_of(
    sets: tuple[str, ...],
    *,
    sequence: int | None = None,
    margin: float | None = None,
    split: str | None = None,
    **elsewhere: str,
) -> dict[str, Any]:
    """Return the settings of ``--set``, with those that have an option.

    Arguments: ``elsewhere`` are further fields, and the option that says each.
    Raises: InputError for a malformed text, and for a field that is repeated, set by an option of
    the command, or part of the plan.
    """
    context = click.get_current_context()
    typed = [one for one in context.command.params if context.params.get(one.name) is not None]
    options = [opt for one in context.command.params for opt in one.opts if opt in FIELDS]
    given = {**{FIELDS[option]: option for option in options}, **elsewhere}
    free = None if margin is None else f"{1.0 - margin:.12g}"
    own: dict[str, Any] = {
        "model.sequence": ("--sequence", sequence),
        "sequence": ("--sequence", sequence),
    }
    own |= {"system.hbm_usable": ("--margin", free), "split": ("--split", split)}
    given |= {path: option for path, (option, value) in own.items() if value is not None}
    found: dict[str, Any] = dict(types.parse_pairs("--set", sets))
    for path in found:
        if path in given:
            twice = any(given[path] in one.opts for one in typed)
            what = "given twice" if twice else "has an option"
            raise refusal("--set", f"{path}: {what}; expected it in {given[path]} alone")
        if path.partition(".")[0] == "plan":
            raise refusal("--set", f"{path}: not a field of the question; use --where or --plan")
    more = {path: value for path, (_, value) in own.items() if value is not None}
    more.pop("sequence", None)
    return {**found, **more}
