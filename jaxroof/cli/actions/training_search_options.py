"""The options of the searches for plans of models of today, parsed when they are read."""

import dataclasses
from collections.abc import Sequence
from typing import Any

from jaxroof.cli.actions.arguments import parse_pairs
from jaxroof.cli.actions.outputs import check_output, is_picture
from jaxroof.cli.actions.question_options import PlansQuestion
from jaxroof.errors import refusal
from jaxroof.estimators.training.step import stage_memory

KINDS = (".csv", ".json", ".nc")
OPTIONS = {
    "model": "--model",
    "system": "--system",
    "global_batch": "--batch",
    "gpus": "--gpus",
}


@dataclasses.dataclass(frozen=True, kw_only=True)
class TrainingSearchOptions(PlansQuestion):
    """A search for plans of today's training."""

    top: int
    mine: str | None

    @property
    def question(self) -> dict[str, Any]:
        """Return what is asked on every number of accelerators, but the batch."""
        return {
            "model": self.model_name,
            "system": self.system_name,
            "where": self.where,
            "settings": settings_of(self.sets),
        }


def settings_of(sets: Sequence[str]) -> dict[str, Any]:
    """Return the settings of ``--set``.

    Raises: InputError for a field of the plan, and for one that an option sets.
    """
    found: dict[str, Any] = {}
    for name, value in parse_pairs("--set", sets, "NAME=VALUE").items():
        if name in OPTIONS:
            raise refusal("--set", f"{name}: expected it in {OPTIONS[name]}")
        if name.removeprefix("plan.") in (*stage_memory.plan_fields, *stage_memory.short_names):
            raise refusal("--set", f"{name}: a field of the plan; constrain it with --where")
        found[name] = value
    return found


def check_kind(output: str | None) -> None:
    """Check, before any work, that a file can be written.

    Raises: InputError with the reason it cannot.
    """
    if is_picture(output):
        raise refusal(str(output), f"expected a name that ends in {', '.join(KINDS)}")
    check_output(output, KINDS)
