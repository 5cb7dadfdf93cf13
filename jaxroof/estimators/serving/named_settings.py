"""Settings of a server by name: formats of its numbers, and its software, as they are on a system.

Source: docs/models/serving.md, section 2.
"""

import os
from collections.abc import Callable, Iterable, Mapping
from typing import Any

from jaxroof import catalog
from jaxroof.catalog import lookup as named
from jaxroof.catalog.architecture import Architecture
from jaxroof.catalog.serving_software import ServingSoftware
from jaxroof.catalog.system import System
from jaxroof.errors import refusal, shown, unknown
from jaxroof.estimators.serving.inputs import FORMATS
from jaxroof.estimators.serving.legality import is_given
from jaxroof.records import leaves, units
from jaxroof.settings import Named, apply_settings, is_pair

Tables = dict[str, dict[str, Any]]  # the axes: name -> path -> values
PRECISION, SOFTWARE, CACHE = "precision", "software", "cache"
PRECISIONS = ("bf16", "fp8", "fp4", "mxfp4")  # or attention:mlp, each of FORMATS
PLACES = ("attention_format", "mlp_format")
CACHES = {"bf16": 2.0, "fp8": 1.0}  # bytes of a number
MACHINE = "machine"  # the axis of systems with what goes with each
MXFP4 = "gpt-oss"  # how names of models begin whose checkpoints have experts in 4 bits


def formats(name: Any, system: Any, model: Any) -> dict[str, float]:
    """Return the formats of weights that a precision stands for, by path.

    fp4: attention of a latent kind is in 8 bits; mxfp4: attention is in 16 bits, and MLPs run at 8
    bits where the chip has 4, else at 16. Without a name the checkpoint's, else 8 bits where the
    chip has them, else 16.
    Raises: InputError for an unknown precision.
    """
    machine = system if isinstance(system, System) else named.serving_system(system)
    few = {form: is_given(getattr(machine, f"{form}_flops")) for form in ("fp8", "fp4")}
    if name is None:
        name = "mxfp4" if _called(model).startswith(MXFP4) else "fp8" if few["fp8"] else "bf16"
    known: dict[Any, tuple[str, str]] = {
        **{form: (form, form) for form in PRECISIONS},
        "mxfp4": ("bf16", "mxfp4-8" if few["fp4"] else "mxfp4-16"),
    }
    if name == "fp4" and _is_latent(model):
        known["fp4"] = "fp8", "fp4"
    pair = known.get(name, tuple(str(name).split(":")))
    if len(pair) != len(PLACES) or not {*pair} <= {*FORMATS}:
        raise unknown(PRECISION, name, "number format of a server", [*known, "fp8:fp4"])
    places = zip(PLACES, pair, strict=True)
    return {f"{PRECISION}.{place}": float(FORMATS.index(form)) for place, form in places}


def _called(model: Any) -> str:
    if not isinstance(model, str | os.PathLike | catalog.Table):
        return ""
    return catalog.base_of("architectures", model) or ""


def _is_latent(model: Any) -> bool:
    found = model[0] if is_pair(model) else model
    found = found if isinstance(found, Architecture | None) else named.architecture(found)
    return found is not None and bool(found.kv_rank > 0.0)


def software(name: Any, system: Any, _: Any) -> ServingSoftware:
    """Return what software reaches of the chip of a system; without a name, the usual."""
    if isinstance(name, ServingSoftware):
        return name
    if name not in (None, "start"):
        raise unknown(SOFTWARE, name, "software that serves", ["start"])
    return ServingSoftware()


# ---- Settings and axes --------------------------------------------------------------------------

Of = Callable[[Any, Any, Any], Any]  # name, system, model -> what the name stands for


def expand(settings: dict[str, Any], tables: Tables, machine: Any) -> tuple[dict[str, Any], Tables]:
    """Return settings and axes in which names stand for numbers and records.

    What is given by its own path stays as given. What differs between systems moves with them.
    Raises: InputError for an unknown name, or one that is given twice.
    """
    axis_of = {path: axis for axis, table in tables.items() for path in table}
    fresh = "model" in settings or "model" in axis_of  # else inputs already have all of it
    settings, tables = _cache(settings, tables)
    for key, of in ((SOFTWARE, software), (PRECISION, formats)):
        asked = settings.get(key) is not None
        if asked and key in axis_of:
            raise refusal(key, "given beside the axes too; expected it once")
        if fresh or asked or key in axis_of:
            points = _points(key, settings, tables, axis_of, machine)
            found = [of(*point[1:]) for point in points]
            settings, tables = PUT[key](settings, tables, points[0][0], found, points)
            axis_of = {path: axis for axis, table in tables.items() for path in table}
    return settings, tables


Point = tuple[str, Any, Any, Any]  # axis, name, system, model


def _points(
    key: str, settings: Mapping[str, Any], tables: Tables, axis_of: Mapping[str, str], machine: Any
) -> list[Point]:
    """Return the points of the axis along which a name, or what it stands for, may change."""
    names = (key, "system", "model") if key == PRECISION else (key, "system")
    fixed = {**settings, "system": machine}
    moving = list(dict.fromkeys(axis_of[name] for name in names if name in axis_of))
    if len(moving) > 1:
        both = f"machine = {{ system = [...], {key} = [...] }}"
        said = f"what it stands for depends on {' and '.join(names[1:])}; expected one axis"
        raise refusal(key, f"{said}, such as {both}, or {key} once")
    axis = moving[0] if moving else ""
    table = tables.get(axis, {})
    columns = {name: _listed(name, table[name]) for name in names if name in table}
    counts = {len(column) for column in columns.values()}
    if len(counts) > 1:
        raise refusal(key, f"{min(counts)} and {max(counts)} names on one axis; expected as many")
    count = counts.pop() if counts else 1
    each = [columns.get(name, [fixed.get(name)] * count) for name in (key, "system", "model")]
    return [(axis, *point) for point in zip(*each, strict=True)]


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

    path, made = f"{PRECISION}.cache_width", {}
    if settings.get(CACHE) is not None:
        settings = {path: width(settings[CACHE]), **settings}
    for axis, table in tables.items():
        made[axis] = {k: v for k, v in table.items() if k != CACHE}
        if CACHE in table:
            made[axis][path] = [width(name) for name in _listed(CACHE, table[CACHE])]
    return {key: value for key, value in settings.items() if key != CACHE}, made


def _put_formats(
    settings: dict[str, Any], tables: Tables, axis: str, found: list[Any], points: list[Point]
) -> tuple[dict[str, Any], Tables]:
    own = {path: value for path, value in settings.items() if path != PRECISION}
    if axis == "" or (all(one == found[0] for one in found) and PRECISION not in tables[axis]):
        return {**found[0], **own}, tables
    labels = [_name_of(one) for one in found]
    columns = {path: [one[path] for one in found] for path in found[0] if path not in own}
    return own, _with(tables, axis, PRECISION, "formats", Named(tuple(labels), columns))


def _name_of(found: Mapping[str, float]) -> str:
    """Return formats by name: one, or that of attention and that of MLPs."""
    names = [FORMATS[int(value)] for value in found.values()]
    return ":".join(dict.fromkeys(names))


def _put_software(
    settings: dict[str, Any], tables: Tables, axis: str, found: list[Any], points: list[Point]
) -> tuple[dict[str, Any], Tables]:
    rest = {path: value for path, value in settings.items() if path != SOFTWARE}
    if axis == "":
        return {**rest, SOFTWARE: found[0]}, tables
    inside = f"{SOFTWARE}."
    fields = {path.removeprefix(inside): v for path, v in rest.items() if path.startswith(inside)}
    each = [
        {p: v for p, _, v in leaves(apply_settings(one, None, fields)[0])} for one in found
    ]
    if all(one == each[0] for one in each) and SOFTWARE not in tables[axis]:
        return {**rest, SOFTWARE: found[0]}, tables
    columns = {f"{inside}{f}": [one[f] for one in each] for f in units(ServingSoftware)}
    labels = tuple(str(name or "usual") for _, name, _, _ in points)
    rest = {path: value for path, value in rest.items() if not path.startswith(inside)}
    return rest, _with(tables, axis, SOFTWARE, SOFTWARE, Named(labels, columns))


def _with(tables: Tables, axis: str, key: str, path: str, named: Named) -> Tables:
    """Return axes with what a name stands for along one of them; of systems it is ``machine``."""
    table = {p: v for p, v in tables[axis].items() if p != key} | {path: named}
    place = MACHINE if axis == "system" else axis
    return {
        place if name == axis else name: table if name == axis else one
        for name, one in tables.items()
    }


PUT = {SOFTWARE: _put_software, PRECISION: _put_formats}
