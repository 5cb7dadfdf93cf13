"""Number formats of today's training by name, as the numbers that they stand for.

Source: docs/models/parameters_flops_memory.md, sections 4.4 and 4.5.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, NamedTuple

from jaxroof import catalog
from jaxroof.catalog.architecture import Architecture
from jaxroof.catalog.lookup import (
    chip_name,
    device,
    refuse_untrained,
    training_system,
    with_chip,
)
from jaxroof.catalog.system import System
from jaxroof.errors import InputError, NoAnswer, refusal, shown, unknown
from jaxroof.estimator import Estimator
from jaxroof.estimators.training.named_settings import (
    KINDS,
    with_fabrics,
    with_numbers,
    without_names,
)
from jaxroof.settings import Named, carried, is_pair


class Format(NamedTuple):
    """What a number format stands for; flags that it lacks are 0."""

    saved: float  # bytes of a saved input of a product
    weights: Mapping[str, float]  # by chips that have it: bytes of a weight with its copies
    flags: tuple[str, ...] = ()  # of the software


BF16 = "bf16"
_BLACKWELL, _AMD = ("blackwell", "blackwell-ultra"), ("cdna3", "cdna4")
BEFORE = "ampere"  # a chip with neither 8-bit nor 4-bit rates
FORMATS = {
    BF16: Format(2.0, dict.fromkeys((BEFORE, "hopper", *_BLACKWELL, *_AMD), 2.0)),
    # Hopper has a transposed copy, and AMD's are taken for alike
    "fp8": Format(
        1.0, {**dict.fromkeys(("hopper", *_AMD), 2.0), **dict.fromkeys(_BLACKWELL, 1.0)}, ("fp8",)
    ),
    # both directions, a scale a block of 32
    "mxfp8": Format(1.03125, dict.fromkeys(_BLACKWELL, 2.0625), ("fp8", "micro_scaled")),
    # bf16 primary weights with cached copies
    "nvfp4": Format(0.5625, dict.fromkeys(_BLACKWELL, 3.125), ("fp4",)),
}
FLAGS = ("fp8", "micro_scaled", "fp4")
MACHINE = "machine"  # the axis of systems whose settings differ too
PRECISION, CHIP = "precision", "chip"
NAMES = (PRECISION, *KINDS)  # each of which stands for numbers, in a column of rows too
Tables = dict[str, dict[str, Any]]  # the axes: name -> path -> values


def with_precision(
    settings: Mapping[str, Any], system: Any, estimator: Estimator
) -> dict[str, Any]:
    """Return settings with the precision replaced by what it stands for, unless that is given.

    Raises: InputError for an unknown format, or one that the chip of the system lacks.

    >>> from jaxroof.estimators import estimator
    >>> found = with_precision({"precision": "mxfp8"}, "b200-nvs8", estimator("training"))
    >>> found["states.weight_bytes"]
    2.0625
    """
    rest = {name: value for name, value in settings.items() if name != PRECISION}
    if settings.get(PRECISION) is None:
        return rest
    found = _fields(
        settings[PRECISION], system, "software" in estimator.inputs.__dataclass_fields__
    )
    return {**{k: v for k, v in found.items() if k.rpartition(".")[2] not in rest}, **rest}


def expand_settings(timed: bool) -> Callable[..., tuple[dict[str, Any], Tables]]:
    """Return the function that replaces short names in settings and axes of a question.

    ``precision`` is a number format, ``chip`` another chip of the system: a name, a file or a
    record; ``fabric`` is a network of the catalogue in place of the system's; ``dispatcher`` and
    ``constants`` are names of the catalogue too, of the step time alone. ``timed`` says whether the
    inputs have a software.
    """

    def expand(settings: dict[str, Any], tables: Tables, machine: Any) -> tuple[Any, Tables]:
        model: Any = settings.get("model")
        chosen = carried(model)
        if is_pair(model):
            model, chosen = model
        if isinstance(model, Architecture):  # by name, the catalogue refuses
            refuse_untrained("model", model, chosen)
        rest = {
            f"system.{name}" if name.startswith(f"{CHIP}.") else name: value
            for name, value in settings.items()
            if name != CHIP
        }
        if timed:
            rest, tables = with_numbers(rest, tables)
        else:
            rest = without_names(rest)
        rest, tables = with_fabrics(rest, tables, machine, training_system if timed else device)
        machine = rest.get("system", machine)
        found, tables = _with_formats(rest, tables, machine, timed)
        if settings.get(CHIP) is None:
            return found, tables
        if any("system" in table for table in tables.values()):
            raise refusal(CHIP, "given beside several systems; expected one system")
        whole, _ = with_chip({}, machine, settings[CHIP])
        return {**found, "system": whole}, tables

    return expand


def _with_formats(
    settings: dict[str, Any], tables: Tables, machine: Any, timed: bool
) -> tuple[dict[str, Any], Tables]:
    """Return settings and axes with the precision replaced by what it stands for.

    That may differ between systems; what differs moves with them.
    Raises: InputError for a precision that is given twice, or on another axis than systems.
    """
    axis_of = {path: key for key, table in tables.items() for path in table}
    asked, moves = settings.get(PRECISION), PRECISION in axis_of
    if asked is None and not moves:
        return settings, tables
    if asked is not None and moves:
        raise refusal(PRECISION, "given beside the axes too; expected it once")
    rest = {name: value for name, value in settings.items() if name != PRECISION}
    places = {axis_of[name] for name in (PRECISION, "system") if name in axis_of}
    if len(places) > 1:
        both = "machine = { system = [...], precision = [...] }"
        raise refusal(PRECISION, f"what it stands for depends on system; expected one axis, {both}")
    if not places:
        return {**_fields(asked, machine, timed), **rest}, tables
    (place,) = places
    formats, systems = (_listed(tables[place].get(name)) for name in (PRECISION, "system"))
    formats, systems = formats or [asked] * len(systems), systems or [machine] * len(formats)
    if len(formats) != len(systems):
        said = f"{len(formats)} formats and {len(systems)} systems on one axis"
        raise refusal(PRECISION, f"{said}; expected as many of both")
    points = list(zip(formats, systems, strict=True))
    known = {point: _fields(*point, timed) for point in dict.fromkeys(points)}
    each = [{**known[point], **rest} for point in points]
    shared, differ = settings_by_system(each)
    if not moves and not differ:
        return shared, tables
    if not differ:  # one format all along the axis
        differ = {path: [one[path] for one in each] for path in each[0] if path not in rest}
    named = Named(tuple(str(one) for one, _ in points), differ)
    others = {key: table for key, table in tables.items() if key != place}
    name = MACHINE if place == "system" else place
    return shared, {**others, name: {**tables[place], PRECISION: named}}


def settings_by_system(
    each: Sequence[Mapping[str, Any]],
) -> tuple[dict[str, Any], dict[str, list[Any]]]:
    """Return the settings that all systems share, and by path those that differ, one a system.

    >>> settings_by_system([{"a": 1, "b": 2}, {"a": 1, "b": 3}])
    ({'a': 1}, {'b': [2, 3]})
    """
    found = {path: [some.get(path) for some in each] for some in each for path in some}
    differ = {path: values for path, values in found.items() if len({*map(str, values)}) > 1}
    return {k: v for k, v in each[0].items() if k not in differ}, differ


def _listed(values: Any) -> list[Any]:
    """Return the points of an axis of names, or of records by name."""
    if isinstance(values, str) or not isinstance(values, Iterable | None):
        raise refusal(PRECISION, f"expected a list of names, given {shown(values)}")
    return [*(values.values() if isinstance(values, Mapping) else values or ())]


def _fields(name: Any, system: Any, timed: bool) -> dict[str, float]:
    """Return what a format stands for on a system, by path."""
    if name not in FORMATS:
        raise unknown(PRECISION, name, "number format", FORMATS)
    saved, weights, own = FORMATS[name]
    chip, record = _generation(system), isinstance(system, System)
    if chip is None and len({*weights.values()}) > 1:
        whose = "this system" if record else system
        known = "expected a system of Hopper or Blackwell, or precision=bf16 with weight_bytes"
        raise NoAnswer(f"{PRECISION}: {name}: not known for {whose}; {known}")
    if chip is not None and own and chip not in weights:
        able = "bf16, fp8 or a system of Blackwell" if chip in FORMATS["fp8"].weights else "bf16"
        whose = "the system" if record else system
        raise NoAnswer(f"{PRECISION}: {name}: {whose} has no products at it; expected {able}")
    weight = weights.get(chip or "", next(iter(weights.values())))
    memory = {"states.weight_bytes": weight, "activations.linear_input_bytes": saved}
    flags = {f"software.{flag}": float(flag in own) for flag in FLAGS}
    return {**memory, **(flags if timed else {})}


def _generation(system: Any) -> str | None:
    """Return the generation of a system's chip, by its name or its few-bit rates, if known."""
    if isinstance(system, System):
        if system.chip is None:
            return None
        few_bits = {"blackwell": system.chip.fp4_flops, "hopper": system.chip.fp8_flops}
        return next((name for name, rate in few_bits.items() if rate > 0.0), BEFORE)
    try:
        return chip_name(catalog.base_of("systems", system) or system)
    except (InputError, TypeError):
        return None
