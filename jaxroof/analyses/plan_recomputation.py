"""How much a plan computes again, as a choice of the memory model."""

from collections.abc import Mapping
from typing import Any

from jaxroof.errors import refusal, shown
from jaxroof.estimators.training.memory_recipe import Recompute
from jaxroof.estimators.training.training_recipe import MODULES, Selective
from jaxroof.units import parse

NAMES = ("rc", "recompute")
KINDS = {0.0: Recompute.NONE, 1.0: Recompute.SELECTIVE, 2.0: Recompute.FULL}


def with_recomputation(
    plan: Mapping[str, Any], settings: Mapping[str, Any]
) -> tuple[dict[str, Any], dict[str, Any]]:
    """Return a plan without ``rc``, and settings with the choices that it stands for in a search.

    Raises: InputError for another number than 0, 1 or 2, and if ``recompute`` is set besides.

    >>> with_recomputation({"dp": 8, "rc": 2}, {})
    ({'dp': 8}, {'recompute': 'full'})
    """
    rest = {name: value for name, value in plan.items() if name not in NAMES}
    level = next((value for name, value in plan.items() if name in NAMES), None)
    if level is None:
        return rest, dict(settings)
    if "recompute" in settings:
        raise refusal("recompute", "given twice, as rc of the plan too; expected it once")
    kind = KINDS.get(parse(level, "1", "plan: rc"))
    if kind is None:
        raise refusal("plan: rc", f"expected whole numbers from 0 to 2, given {shown(level)}")
    light = {"modules": MODULES[Selective.LIGHT]} if kind is Recompute.SELECTIVE else {}
    return rest, {**settings, "recompute": kind.value, **light}
