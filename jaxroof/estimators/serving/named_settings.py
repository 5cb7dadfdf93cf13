"""Settings of a server by name: formats of its numbers, and its software, as they are on a system.

Source: docs/models/serving.md, section 2.
"""

import itertools
from collections.abc import Callable, Iterable, Mapping
from typing import Any

from jaxroof.catalog import lookup as named
from jaxroof.catalog.architecture import Architecture
from jaxroof.catalog.serving_software import (
    MEASURED,
    RATES,
    ServingSoftware,
    serving_name,
    serving_software,
)
from jaxroof.catalog.system import System
from jaxroof.errors import refusal, shown, unknown
from jaxroof.estimators.serving.inputs import FORMATS
from jaxroof.estimators.serving.legality import NEEDS, NO_RATE, is_given
from jaxroof.records import leaves, replace_at
from jaxroof.settings import Named, apply_settings, is_pair

Tables = dict[str, dict[str, Any]]  # the axes: name -> path -> values
STANDS = PRECISION, SOFTWARE, CACHE = "precision", "software", "cache"
PRECISIONS = ("bf16", "fp8", "fp4", "mxfp4")  # or attention:mlp, each of FORMATS
PLACES = ("attention_format", "mlp_format")
WIDTH = f"{PRECISION}.cache_width"
CACHES = {"bf16": 2.0, "fp8": 1.0}  # bytes of a number
MACHINE = "machine"  # the axis of systems with what goes with each
MXFP4 = {  # models whose checkpoints have experts in 4 bits
    sizes for name, sizes in MEASURED.items() if name.startswith("gpt-oss")
}


def formats(name: Any, system: Any, model: Any) -> dict[str, float]:
    """Return the formats of weights that a precision stands for, by path.

    fp4: attention of a latent kind is in 8 bits; mxfp4: attention is in 16 bits, and MLPs run at 8
    bits where the chip has 4, else at 16. Without a name the checkpoint's, else 8 bits where the
    chip has them, else 16.
    Raises: InputError for an unknown precision, or one at which the chip's rate is not known.
    """
    machine = system if isinstance(system, System) else named.serving_system(system)
    few = {form: is_given(getattr(machine, f"{form}_flops")) for form in ("fp8", "fp4")}
    found = _architecture(model)
    if name is None:
        name = "mxfp4" if _sizes(found) in MXFP4 else "fp8" if few["fp8"] else "bf16"
    known: dict[Any, tuple[str, str]] = {
        **{form: (form, form) for form in PRECISIONS},
        "mxfp4": ("bf16", "mxfp4-8" if few["fp4"] else "mxfp4-16"),
    }
    if name == "fp4" and found is not None and found.kv_rank > 0.0:
        known["fp4"] = "fp8", "fp4"
    pair = known.get(name, tuple(str(name).split(":")))
    if len(pair) != len(PLACES) or not {*pair} <= {*FORMATS}:
        raise unknown(PRECISION, name, "number format of a server", [*known, "fp8:fp4"])
    for form in pair:
        if any(form in needed and not few[rate] for rate, needed in NEEDS.items()):
            whose = "" if isinstance(system, System) else f"{system}: "
            raise refusal(PRECISION, f"{whose}{form}: {NO_RATE}; expected another format")
    places = zip(PLACES, pair, strict=True)
    return {f"{PRECISION}.{place}": FORMATS.index(form) for place, form in places}


def _architecture(model: Any) -> Architecture | None:
    found = model[0] if is_pair(model) else model
    return found if isinstance(found, Architecture | None) else named.architecture(found)


def _sizes(model: Architecture | None) -> tuple[float, ...]:
    fields = ("layers", "hidden", "experts")
    return () if model is None else tuple(float(getattr(model, field)) for field in fields)


def formats_in_words(found: Mapping[str, float]) -> str:
    """Return formats by name: one, or that of attention and that of MLPs."""
    names = [FORMATS[int(found[f"{PRECISION}.{place}"])] for place in PLACES]
    return ":".join(dict.fromkeys(names))


def constants(name: Any, system: Any, _: Any) -> dict[str, float]:
    """Return what software reaches of the chip of a system, by path; without a name, the usual."""
    found = name if isinstance(name, ServingSoftware) else serving_software(name, system)
    return {f"{SOFTWARE}.{path}": float(value) for path, _, value in leaves(found)}


# ---- Settings and axes --------------------------------------------------------------------------

OF: Mapping[str, Callable[[Any, Any, Any], dict[str, float]]] = {  # name, system, model -> numbers
    SOFTWARE: constants,
    PRECISION: formats,
}
LABELS = {SOFTWARE: "engine", PRECISION: "format"}  # of the points of an axis, which may be its own


def expand(settings: dict[str, Any], tables: Tables, machine: Any) -> tuple[dict[str, Any], Tables]:
    """Return settings and axes in which names stand for numbers.

    What is given by its own path stays as given. What differs between systems or models moves with
    them. Raises: InputError for an unknown name, or one that is given twice.
    """
    keys = {label: key for key, label in LABELS.items()}  # as a stored answer has them
    tables = {
        axis: {keys.get(path, path): values for path, values in table.items()}
        for axis, table in tables.items()
    }
    settings, tables = _cache(settings, tables)
    if machine is None:  # field by field, as a stored answer has it
        paths = {rate: f"system.{rate}" for rate in (*RATES, "fp8_flops", "fp4_flops")}
        rates = {rate: settings[path] for rate, path in paths.items() if path in settings}
        machine = apply_settings(System(), None, rates)[0] if rates else None
    for key in OF:
        axis_of = {path: axis for axis, table in tables.items() for path in table}
        asked = settings.get(key) is not None
        if asked and key in axis_of:
            raise refusal(key, "given beside the axes too; expected it once")
        fresh = "model" in settings or "model" in axis_of  # else the inputs have all of it
        if fresh or asked or key in axis_of:
            settings, tables = _numbers(key, {**settings, "system": machine}, tables, settings)
            own = any(path.startswith(f"{key}.") and path != WIDTH for path in settings)
            if key == PRECISION and not own:
                settings, tables = _alike(settings, tables)
    return settings, tables


def _alike(settings: dict[str, Any], tables: Tables) -> tuple[dict[str, Any], Tables]:
    """Return settings and axes whose systems have the same rates: an axis keeps what all have.

    Where one lacks a rate, no format at any point needs it, and its rate at 16 bits stands there.
    """
    axis = next((axis for axis, table in tables.items() if "system" in table), None)
    if axis is None:
        return settings, tables
    given = tables[axis]["system"]
    every = given if isinstance(given, Mapping) else {str(one): one for one in given}
    found = {
        name: one if isinstance(one, System) else named.serving_system(one)
        for name, one in every.items()
    }
    for rate in (f"{form}_flops" for form in NEEDS):
        known = [is_given(getattr(one, rate)) for one in found.values()]
        for has, (name, one) in zip(known, list(found.items()), strict=True):
            if any(known) and not has:
                found[name] = replace_at(one, rate, one.matrix_flops)
    first = next(iter(found.values()))
    return {**settings, "system": first}, {**tables, axis: {**tables[axis], "system": found}}


def _numbers(
    key: str, fixed: Mapping[str, Any], tables: Tables, settings: Mapping[str, Any]
) -> tuple[dict[str, Any], Tables]:
    """Return settings and axes with the numbers that a name stands for on a system."""
    names = (key, "system", "model")
    moving = {axis: p for axis, table in tables.items() if (p := _points(names, table))}
    axis = next((a for name in names for a in moving if name in moving[a][0]), "")
    points, others = moving.pop(axis, [{}]), list(itertools.product(*moving.values()))
    found, labels = [], []
    for point in points:
        each = []
        for other in others:
            asked = {**fixed, **{k: v for one in other for k, v in one.items()}, **point}
            each.append(OF[key](*(asked.get(name) for name in names)))
        if any(one != each[0] for one in each):
            both = f"machine = {{ system = [...], {key} = [...] }}"
            said = "what it stands for depends on system and model; expected one axis, such as"
            raise refusal(key, f"{said} {both}")
        found.append(each[0])
        labels.append(_label(key, asked, each[0]))
    rest = {path: value for path, value in settings.items() if path != key}
    shared = {path: value for path, value in found[0].items() if path not in rest}
    differ = [path for path in shared if any(one[path] != shared[path] for one in found)]
    if key == SOFTWARE:
        fields = {path.removeprefix(f"{key}."): value for path, value in found[0].items()}
        made = {**rest, key: ServingSoftware(**fields)}
    else:
        made = {**{path: v for path, v in shared.items() if path not in differ}, **rest}
    if not axis or not (differ or key in tables[axis]):
        return made, tables
    columns = {path: [one[path] for one in found] for path in differ or list(shared)[:1]}
    table = {path: values for path, values in tables[axis].items() if path != key}
    table[LABELS[key]] = Named(tuple(labels), columns)
    place = {"system": MACHINE, key: LABELS[key]}.get(axis, axis)  # no path of a record
    return made, {
        place if one == axis else one: table if one == axis else t for one, t in tables.items()
    }


def _label(key: str, asked: Mapping[str, Any], found: Mapping[str, float]) -> str:
    if key == PRECISION:
        return formats_in_words(found)
    name = asked.get(key)
    return "own" if isinstance(name, ServingSoftware) else str(serving_name(name, asked["system"]))


def _points(names: Iterable[str], table: Mapping[str, Any]) -> list[dict[str, Any]]:
    """Return the points of an axis, each with its values of some names; none if it has none."""
    columns = {name: _listed(name, table[name]) for name in names if name in table}
    counts = {name: len(column) for name, column in columns.items()}
    if len({*counts.values()}) > 1:
        said = " and ".join(f"{count} of {name}" for name, count in counts.items())
        raise refusal(next(iter(counts)), f"{said} on one axis; expected as many of each")
    return [dict(zip(columns, row, strict=True)) for row in zip(*columns.values(), strict=True)]


def _listed(key: str, values: Any) -> list[Any]:
    if isinstance(values, Mapping):
        return [*values.values()]
    if isinstance(values, str) or not isinstance(values, Iterable) or not [*values]:
        raise refusal(key, f"expected a list of names, given {shown(values)}")
    return [*values]


def _cache(settings: dict[str, Any], tables: Tables) -> tuple[dict[str, Any], Tables]:
    """Return settings and axes with the format of the cache as bytes of a number."""

    def width(name: Any) -> float:
        if name not in CACHES:
            raise unknown(CACHE, name, "number format of a cache", CACHES)
        return CACHES[name]

    made = {}
    if settings.get(CACHE) is not None:
        settings = {WIDTH: width(settings[CACHE]), **settings}
    for axis, table in tables.items():
        made[axis] = {k: v for k, v in table.items() if k != CACHE}
        if CACHE in table:
            made[axis][WIDTH] = [width(name) for name in _listed(CACHE, table[CACHE])]
    return {key: value for key, value in settings.items() if key != CACHE}, made
