"""The question of a command as a file holds it: its options by name, but none that writes.

It is no command line: a file that somebody else made says what was asked, and the caller of
``answer_to`` alone says where the answer goes.
"""

import importlib
import json
from typing import Any

import click

from jaxroof.errors import InputError, refusal

COMMANDS = (
    *("search", "compare", "explain", "pareto", "design", "fit", "layers", "schedule"),
    *("roofline", "collective", "budget", "serve"),
)
OUTPUTS = ("output", "trace", "dry_run", "trust")  # what the caller alone says
VALUES = (str, int, float, tuple, list)  # of an option that is given
DAMAGED = "its arguments are damaged; expected those of jaxroof"


def arguments(context: click.Context) -> dict[str, Any]:
    """Return the name of a command, and its options that are given and no outputs.

    Commands that are not asked again have none.
    """
    name = context.command.name
    if name not in COMMANDS:
        return {}
    usual = (None, click.core.ParameterSource.DEFAULT)
    given = {
        k: v for k, v in context.params.items() if context.get_parameter_source(k) not in usual
    }
    return {"command": name, **{k: v for k, v in given.items() if k not in OUTPUTS}}


def answer_to(stored: str, output: str) -> None:
    """Write the answer to a question that a file holds as its ``arguments`` to a file.

    Raises: InputError for a command that is not asked again, or options that it does not have.
    """
    try:
        asked = dict(json.loads(stored))
        name = asked.pop("command")
        assert name in COMMANDS
        command = importlib.import_module(f"jaxroof.cli.commands.{name}").command
        known = {str(option.name) for option in command.params if option.expose_value}
        assert set(asked) <= known - {*OUTPUTS}
        assert all(map(_plain, asked.values()))
    except (ValueError, TypeError, LookupError, RecursionError, AssertionError):
        raise refusal("question", DAMAGED) from None
    if ":" in str(asked.get("estimator", "")):
        said = "of an estimator of one's own, whose code no file may name; ask it by its command"
        raise refusal("question", said)
    given = {option: value for option, value in asked.items() if value is not None}
    here = click.get_current_context(silent=True)
    with click.Context(command, parent=here, info_name=name) as context:
        try:
            for option in command.params:
                option.handle_parse_result(context, given, [])
        except click.ClickException as error:
            raise InputError(f"question: {error.format_message()}") from None
        for option, value in context.params.items():  # click has a mark for what is not given
            context.params[option] = value if isinstance(value, VALUES) else None
        context.params["output"] = output
        command.callback(**context.params)


def _plain(value: object) -> bool:
    """Return whether a value is one that an option of a command has."""
    if isinstance(value, list):
        return all(isinstance(one, str | int) for one in value)
    return value is None or isinstance(value, str | int | float)
