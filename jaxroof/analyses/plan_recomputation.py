"""How much a plan of ``fit`` computes again: its level, and the modules of level 1."""

import enum
from collections.abc import Iterable, Mapping
from typing import Any, NamedTuple

from jaxroof.errors import refusal, shown, unknown
from jaxroof.estimators.training.inputs import RECOMPUTATION
from jaxroof.estimators.training.recipe import Module, TrainingRecipe, modules_of
from jaxroof.settings import choose
from jaxroof.units import parse

NAMES = ("rc", "recompute")
SELECTIVE = "selective"  # the choice of a search: what rc=1 computes again


class Recomputation(NamedTuple):
    """The level of a plan, the modules that level 1 computes again, and whether either is given."""

    level: float
    modules: frozenset[Module]
    given: bool


def recomputation(
    plan: Mapping[str, Any], settings: Mapping[str, Any]
) -> tuple[Recomputation, dict[str, Any], dict[str, Any]]:
    """Return what is computed again, and the plan and the settings without it.

    ``recompute`` of the settings is a word, ``rc`` of the plan its number; ``selective`` of a
    search says which modules 1 computes again, unless ``modules`` does.
    Raises: InputError for another number than 0, 1 or 2, for what is given twice, and for modules
    without selective recomputation or the other way round.

    >>> recomputation({"dp": 8, "rc": 2}, {})
    (Recomputation(level=2.0, modules=frozenset(), given=True), {'dp': 8}, {})
    """
    number = next((value for name, value in plan.items() if name in NAMES), None)
    word, named = settings.get("recompute"), settings.get("modules")
    if number is not None:
        if "recompute" in settings:
            raise refusal("recompute", "given twice, as rc of the plan too; expected it once")
        level = parse(number, "1", "plan: rc")
        if level not in range(len(RECOMPUTATION)):
            raise refusal("plan: rc", f"expected whole numbers from 0 to 2, given {shown(number)}")
    elif word is not None:
        if word not in RECOMPUTATION:
            raise unknown("recompute", word, "Recompute", RECOMPUTATION)
        level = float(RECOMPUTATION.index(word))
    else:
        level = 0.0 if named is None else 1.0
    if SELECTIVE in settings and "modules" in settings:
        raise refusal(SELECTIVE, "given twice, as modules too; expected it once")
    modules = frozenset() if named is None else listed_modules(named)
    if named is None and level == 1.0 and (number is not None or SELECTIVE in settings):
        chosen = {k: settings[k] for k in (SELECTIVE, "attention_kernel") if k in settings}
        modules = modules_of(choose(TrainingRecipe(), chosen))
    if modules and level != 1.0:
        said = f"go with recompute=selective, given recompute={RECOMPUTATION[int(level)]}"
        raise refusal("modules", said)
    if level == 1.0 and not modules:
        text = "selective says which modules are computed again; expected modules, such as"
        raise refusal("recompute", f"{text} modules={Module.CORE_ATTENTION.value}")
    given = not (number is None and word is None and named is None)
    own = (*NAMES, SELECTIVE, "modules")
    rest = {name: value for name, value in settings.items() if name not in own}
    left = {name: value for name, value in plan.items() if name not in NAMES}
    return Recomputation(level, modules, given), left, rest


def listed_modules(value: Any) -> frozenset[Module]:
    """Return modules that are given as a list, or as a text such as ``core_attn,mlp``."""
    members = {member.value: member for member in Module}
    found = []
    for item in listed(value):
        name = item.value if isinstance(item, enum.Enum) else item
        if name not in members:
            raise unknown("modules", name, "module of a layer", members)
        found.append(members[name])
    return frozenset(found)


def listed(value: Any) -> list[Any]:
    """Return the items of a list, or of a text such as ``core_attn,mlp``."""
    if isinstance(value, str):
        return [item.strip() for item in value.split(",")]
    if not isinstance(value, Iterable):
        raise refusal("", f"expected a list, given {shown(value)}")
    return list(value)
