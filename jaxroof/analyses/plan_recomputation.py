"""How much a plan computes again, as a choice of the memory model."""

from collections.abc import Mapping
from typing import Any

from jaxroof.errors import refusal, shown
from jaxroof.estimators.training.memory_recipe import Recompute
from jaxroof.estimators.training.training_recipe import TrainingRecipe, modules_of
from jaxroof.settings import choose
from jaxroof.units import parse

NAMES = ("rc", "recompute")
SELECTIVE = "selective"  # the choice of a search: what rc=1 computes again
KINDS = {0.0: Recompute.NONE, 1.0: Recompute.SELECTIVE, 2.0: Recompute.FULL}


def with_recomputation(
    plan: Mapping[str, Any], settings: Mapping[str, Any]
) -> tuple[dict[str, Any], dict[str, Any]]:
    """Return a plan without ``rc``, and settings with the choices that it stands for in a search.

    ``selective`` of a search says which modules ``rc=1`` computes again, unless ``modules`` does.
    Raises: InputError for another number than 0, 1 or 2, if ``recompute`` is set besides, and for
    ``selective`` beside ``modules``.

    >>> with_recomputation({"dp": 8, "rc": 2}, {})
    ({'dp': 8}, {'recompute': 'full'})
    """
    rest = {name: value for name, value in plan.items() if name not in NAMES}
    level = next((value for name, value in plan.items() if name in NAMES), None)
    chosen = {name: value for name, value in settings.items() if name != SELECTIVE}
    if level is not None:
        if "recompute" in settings:
            raise refusal("recompute", "given twice, as rc of the plan too; expected it once")
        kind = KINDS.get(parse(level, "1", "plan: rc"))
        if kind is None:
            raise refusal("plan: rc", f"expected whole numbers from 0 to 2, given {shown(level)}")
        chosen["recompute"] = kind.value
    if SELECTIVE in settings and "modules" in settings:
        raise refusal(SELECTIVE, "given twice, as modules too; expected it once")
    named = {name: settings[name] for name in (SELECTIVE, "attention_kernel") if name in settings}
    several = modules_of(choose(TrainingRecipe(), named))
    again = chosen.get("recompute") in (Recompute.SELECTIVE, Recompute.SELECTIVE.value)
    if again and (level is not None or SELECTIVE in settings):
        chosen = {"modules": several, **chosen}  # modules that are given by name stay
    return rest, chosen
