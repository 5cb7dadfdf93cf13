"""The whole run on every system and number of accelerators: which meets a deadline for least."""

import dataclasses
import json
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import xarray as xr

from jaxroof import catalog
from jaxroof.analyses.training_plans import Progress, Rules, plans_asked, plans_on
from jaxroof.catalog import lookup
from jaxroof.engine.search.one_machine import limit_of
from jaxroof.engine.sensitivity.elasticities import elasticities
from jaxroof.errors import refusal, shown, unknown
from jaxroof.estimators import on_system
from jaxroof.estimators.training.step import training
from jaxroof.estimators.whole_run.operation import Operation
from jaxroof.estimators.whole_run.run import plain_restart
from jaxroof.records import units
from jaxroof.units import parse

AIMS = {"cost": "cost", "days": "wall_days", "energy": "energy", "carbon": "carbon"}
ENERGY = ("energy", "carbon")  # aims that need the watts of a chip
LIMITS = {  # limit: the result that it holds, and the attribute that says how much is allowed
    "deadline": ("wall_days", "deadline_days"),
    "power": ("peak_site_watts", "site_power"),
}
UNKNOWN_TOKENS = 1e12  # what stands for the tokens of a model whose training is not known
TOKENS = "model.training_tokens"
HOUR = 3600.0  # [s]
LEVERS = (  # fields whose elasticities are told; those of realised, rent and price are known
    *("chip_mtbf", "barrier", "restart", "repair_time", "spare_nodes", "store_rate", "pue"),
    *("busy_share", "wait_share", "tariff", "interest", "years"),
)
OWNED = ("price", "years", "interest", "tariff", "residual", "upkeep")  # no part of a rent
DAY = 86400.0  # [s]
SUCH = {  # numbers above 0: their unit, and one of them
    "deadline": ("s", "'80 days'"),
    "site_power": ("W", "'25 MW'"),
    "tokens": ("token", "'15T'"),
}
Settings = Mapping[str, Any]


def budget(
    *,
    model: str,
    system: str | Sequence[str],
    gpus: int | Sequence[int],
    global_batch: Any,
    deadline: float | str | None = None,
    minimise: str = "cost",
    site_power: float | str | None = None,
    operation: Settings | None = None,
    by_system: Mapping[str, Settings] | None = None,
    tokens: Any = None,
    where: Rules = (),
    settings: Settings | None = None,
    progress: Progress | None = None,
) -> xr.Dataset:
    """Return the whole training run on every system and number of accelerators, side by side.

    Of each, the plan of the soonest step is evaluated with all that ``operation`` says; nothing is
    bisected, as costs are jagged. ``deadline`` [s] and ``site_power`` [W] are limits; ``minimise``
    is cost, days, energy or carbon. ``by_system`` holds fields of the operation of one system, and
    its chip_watts, host_watts and switch_watts.

    Returns: a Dataset over ``choice`` of ``system``, ``gpus``, plan fields and results, whether it
    is ``allowed``, and ``best``, the place of the best (-1: none is allowed). The attribute
    ``without`` says which sizes have no plan, and why.
    Raises: InputError for bad input, and where no size has a plan.
    """
    if minimise not in AIMS:
        raise unknown("minimise", minimise, "aim", AIMS)
    deadline, site_power = _above_zero("deadline", deadline), _above_zero("site_power", site_power)
    tokens = _above_zero("tokens", tokens)
    systems = [system] if isinstance(system, str) else list(dict.fromkeys(system))
    sizes = [gpus] if isinstance(gpus, int) else list(dict.fromkeys(gpus))
    _check(systems, sizes, deadline, by_system or {})
    known = tokens is not None or TOKENS in (settings or {}) or knows_tokens(model)
    if deadline is not None and not known:
        raise refusal("tokens", f"not known of {model}, and a deadline needs them; expected 15e12")
    found: list[xr.Dataset] = []
    without: dict[str, str] = {}
    asked = {}
    for name in systems:
        own = _of_system(name, operation or {}, (by_system or {}).get(name, {}))
        check_known(name, {**(settings or {}), **own}, AIMS[minimise], site_power)
        given = {"model": model, "system": name, "global_batch": global_batch, **(settings or {})}
        given |= {"training_tokens": tokens, "operation": Operation(), **own}
        asked[name] = plans_asked(on_system(training, name), given, where)
    every = [(name, size) for name in systems for size in sizes]
    for place, (name, size) in enumerate(every):
        machine = plans_on(asked[name], size)
        if len(machine.fitting):
            row = machine.reports(machine.best(1)[0]).isel(plan=0)
            named: dict[str, Any] = {
                "system": name,
                "gpus": ((), size, {"long_name": "Accelerators"}),
            }
            told = {"units": "B", "long_name": "What a plan may need"}
            named["memory_limit"] = ((), limit_of(asked[name]), told)
            found.append(row.drop_vars("plan", errors="ignore").assign(named))
        else:
            legal = "no plan fits" if machine.plans.size else "no plan is legal"
            without[f"{size:,} {name}"] = legal
        if progress is not None:
            progress(place + 1, len(every))
    if not found:
        none = "; ".join(f"{name}: {why}" for name, why in without.items())
        raise refusal("gpus", f"{none}; expected other numbers of accelerators")
    roles = {str(row.system.values): row.attrs["roles"] for row in found}  # of GPUs and of TPUs
    counts = {n for row in found for n, values in row.data_vars.items() if values.dtype.kind == "i"}
    data = xr.concat(
        found,
        "choice",
        data_vars="all",
        coords="minimal",
        compat="override",
        combine_attrs="override",
        fill_value=dict.fromkeys(counts, -1),
    )
    attrs: dict[str, Any] = {"question": "budget", "model": model, "minimise": minimise}
    attrs |= {"title": f"{model}: which accelerators, and how many", "without": json.dumps(without)}
    attrs |= {"roles_of": json.dumps(roles)} if len({*roles.values()}) > 1 else {}
    attrs |= {} if known else {"tokens": "unknown"}
    attrs |= {} if deadline is None else {"deadline_days": deadline / DAY}
    attrs |= {} if site_power is None else {"site_power": site_power}
    data = _chosen(data.assign_attrs(attrs))
    if int(data.best) >= 0:
        best = data.isel(choice=int(data.best))
        data.attrs["levers"] = json.dumps(_levers(asked[str(best.system.values)], best, minimise))
    return data


def _check(
    systems: Sequence[str],
    sizes: Sequence[int],
    deadline: float | None,
    by_system: Mapping[str, Settings],
) -> None:
    """Check what no other place checks: names, and a deadline that is no number of days."""
    for name, asked in (("system", systems), ("gpus", sizes)):
        if not asked:
            raise refusal(name, "an empty list; expected one at least")
    for name in by_system:
        if name not in systems:
            raise unknown("operation", name, "system of the question", systems)
    if deadline is not None and deadline < HOUR:
        raise refusal("deadline", f"{deadline:g} s; expected an hour at least, such as '80 days'")


def _above_zero(key: str, given: Any) -> float | None:
    """Return a number above 0, None where none is given."""
    if given is None:
        return None
    unit, such = SUCH[key]
    found = parse(given, unit, key)
    if found <= 0.0:
        raise refusal(key, f"expected more than 0, such as {such}, given {shown(given)}")
    return found


def knows_tokens(model: Any) -> bool:
    """Return whether a model's entry says on how many tokens it was trained."""
    if isinstance(model, str) and "training_tokens" in catalog.describe("architectures", model):
        return True
    record, _ = lookup.architecture_with_choices(model)
    return float(record.training_tokens) != UNKNOWN_TOKENS


def _of_system(name: str, shared: Settings, own: Settings) -> dict[str, Any]:
    """Return the settings by path of how a run on one system is operated."""
    watts = ("chip_watts", "host_watts", "switch_watts")
    known = units(Operation)
    found: dict[str, Any] = {}
    for given in (shared, own):
        if "rent" in given and "price" in given:
            raise refusal("operation.price", "given beside a rent; expected one of them")
    other = OWNED if "rent" in own else ("rent",) if "price" in own else ()
    shared = {key: value for key, value in shared.items() if key not in other}
    for key, value in {**shared, **own}.items():
        if key not in known and key not in watts:
            place = f"operation.{name}" if key in own else "operation"
            raise unknown("", f"{place}.{key}", "field of Operation", [*known, *watts])
        found[f"system.{key}" if key in watts else f"operation.{key}"] = value
    if "operation.power_limit" in found and "operation.rate_at_limit" not in found:
        said = "missing beside power_limit; expected the share of the rate that it leaves"
        raise refusal("operation.rate_at_limit", said)
    return found


def check_known(
    name: str, settings: Settings, result: str, site_power: float | None = None
) -> None:
    """Check that what a result of a whole run, or a limit, follows from is known of a system."""
    if result == "cost" and not {"operation.rent", "operation.price"} & {*settings}:
        said = f"not given of {name}, and no operation.price"
        raise refusal("operation.rent", f"{said}; expected one of them for the cost, as '2 $/h'")
    watts = settings.get("system.chip_watts", lookup.system(name).chip_watts)
    needed = result in ENERGY or site_power is not None
    needed |= result == "cost" and "operation.rent" not in settings
    if watts is None and needed:
        said = f"not known of {name}; expected them, such as '700 W'"
        raise refusal("system.chip_watts", f"{said} (as operation.{name}.chip_watts in a budget)")


def broken(data: xr.Dataset) -> dict[str, np.ndarray]:
    """Return which choices each limit excludes; one whose power is not known is out of it."""
    return {
        name: ~np.asarray(data[result].values <= float(data.attrs[bound]))
        for name, (result, bound) in LIMITS.items()
        if bound in data.attrs
    }


def _chosen(data: xr.Dataset) -> xr.Dataset:
    """Return the choices with those that the limits allow, and the best of them."""
    allowed = ~np.any([np.zeros(data.sizes["choice"], bool), *broken(data).values()], axis=0)
    aim = np.where(allowed, data[AIMS[str(data.attrs["minimise"])]].values, np.inf)
    best = int(np.argmin(aim)) if allowed.any() else -1
    told = {"long_name": "Whether deadline and power allow it"}
    return data.assign(allowed=("choice", allowed, told), best=((), best, {"long_name": "Best"}))


def _levers(asked: Any, best: xr.Dataset, minimise: str) -> dict[str, float]:
    """Return how much 1 % more of each field of the operation moves what is minimised [%]."""
    of = asked.estimator
    plan = of.plan(**{name: np.float64(best[name]) for name in of.plan_fields})
    inputs = dataclasses.replace(asked.inputs, plan=plan, gpus=np.float64(best.gpus))
    op = inputs.operation
    op = dataclasses.replace(op, restart=plain_restart(op, inputs.gpus))
    inputs = dataclasses.replace(inputs, operation=op)
    paths = [f"operation.{name}" for name in LEVERS if np.any(getattr(op, name))]
    found = elasticities(of, inputs, asked.recipe, parameters=paths, of=AIMS[minimise]).elasticity
    values = dict(zip(found.parameter.values.tolist(), found.values.ravel().tolist(), strict=True))
    return dict(sorted(values.items(), key=lambda one: -abs(one[1])))
