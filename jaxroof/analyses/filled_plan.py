"""A plan of the user's in part, filled in as a search does: with the fastest that fits."""

import json
import math
from collections.abc import Mapping
from typing import Any, NamedTuple

from jaxroof.analyses.least_memory import machine_of
from jaxroof.analyses.own_plan import fastest_place, filled_in, own_fields, place_of
from jaxroof.analyses.plan_question import Question
from jaxroof.errors import InputError
from jaxroof.estimators.training.step import training


class Filled(NamedTuple):
    """What a search fills a plan in part with."""

    plan: dict[str, int]  # the fields that were left open
    chosen: dict[str, int]  # those of them in which legal plans differ

    @property
    def attrs(self) -> dict[str, str]:
        """Return the attribute of an answer that says what was chosen."""
        return {"filled": json.dumps(self.chosen)}


def filled_plan(asked: Question, size: float, own: Mapping[str, Any]) -> Filled | None:
    """Return the fields that a plan leaves open, as ``search --mine`` shows the same plan.

    They are those of the fastest legal plan with its fields that fits; if none does, of the
    leanest. None where no chip is known, or where a search lists no plan with these fields.

    Arguments: ``size`` is the number of accelerators, ``own`` has the fields that are given.
    """
    given = {name: float(value) for name, value in own.items()}
    whole = all(value == math.floor(value) for value in (size, *given.values()))
    if asked.inputs.system.chip is None or not whole:
        return None
    text = ",".join(f"{name}={int(value)}" for name, value in given.items())
    try:
        rules = (*asked.constraints, *own_fields(text))
        machine = machine_of(asked._replace(constraints=rules), int(size), training)
        if not machine.plans.size:
            return None
        some = place_of(asked.inputs, asked.recipe, machine, int(size), text)
        place = fastest_place(machine, some)
    except InputError:  # what is wrong is said of the plan as it is given
        return None
    every = {name: int(column[0]) for name, column in machine.at(place).items()}
    left = {name: value for name, value in every.items() if name not in given}
    if every["context"] == 1 or asked.recipe.context_exchange is not None:
        left.pop("exchange", None)  # nothing is exchanged, or as the recipe says
    return Filled(left, filled_in(machine, text, some, int(place[0])))
