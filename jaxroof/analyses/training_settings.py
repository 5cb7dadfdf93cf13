"""Short settings of today's training: a number format and a chip, as what they stand for.

Source: docs/models/parameters_flops_memory.md, sections 4.4 and 4.5.
"""

import dataclasses
import os
from collections.abc import Mapping, Sequence
from typing import Any

from jaxroof import catalog
from jaxroof.catalog.chip import Chip
from jaxroof.catalog.lookup import chip_name, chip_of, device, training_system
from jaxroof.errors import InputError, refusal, unknown
from jaxroof.estimator import Estimator

BF16 = "bf16"
MEMORY = {  # bytes of a weight with its copies (None: by chip), and of a saved input of a product
    BF16: (2.0, 2.0),
    "fp8": (None, 1.0),
    "mxfp8": (2.0625, 1.03125),  # both directions, a scale a block of 32
    "nvfp4": (3.125, 0.5625),  # bf16 primary weights with cached copies
}
NATIVE = {  # chips that have products at a number format
    "fp8": ("hopper", "blackwell", "blackwell-ultra"),
    "mxfp8": ("blackwell", "blackwell-ultra"),
    "nvfp4": ("blackwell", "blackwell-ultra"),
}
FP8_WEIGHT = {
    "hopper": 2.0,
    "blackwell": 1.0,
    "blackwell-ultra": 1.0,
}  # Hopper has a transposed copy
TIME = {"fp8": {"fp8": 1.0}, "mxfp8": {"fp8": 1.0, "micro_scaled": 1.0}, "nvfp4": {"fp4": 1.0}}
MACHINE = "machine"  # the axis of systems whose settings differ too


def with_precision(
    settings: Mapping[str, Any], system: Any, estimator: Estimator
) -> dict[str, Any]:
    """Return settings with the precision replaced by what it stands for, unless that is given.

    What it asks of the software counts for estimators that have one.
    Raises: InputError for an unknown format, or one that the chip of the system lacks.

    >>> from jaxroof.estimators import estimator
    >>> found = with_precision({"precision": "mxfp8"}, "b200-nvs8", estimator("training"))
    >>> found["states.weight_bytes"]
    2.0625
    """
    rest = {name: value for name, value in settings.items() if name != "precision"}
    name = settings.get("precision")
    if name is None:
        return rest
    if name not in MEMORY:
        raise unknown("precision", str(name), "number format", MEMORY)
    _check_native(name, system)
    weight, saved = MEMORY[name]
    if weight is None:
        weight = _fp8_weight(system)
    stands_for = {"weight_bytes": weight, "linear_input_bytes": saved}
    paths = {"weight_bytes": "states", "linear_input_bytes": "activations"}
    found = {
        f"{paths[field]}.{field}": value
        for field, value in stands_for.items()
        if not {field, f"{paths[field]}.{field}"} & {*rest}
    }
    timed = "software" in estimator.inputs.__dataclass_fields__
    flags = TIME.get(name, {}) if timed else {}
    return {**found, **{f"software.{field}": value for field, value in flags.items()}, **rest}


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


def precision_over_systems(
    settings: Mapping[str, Any], axes: Mapping[str, Any], estimator: Estimator
) -> tuple[dict[str, Any], dict[str, Any]]:
    """Return settings and axes of a grid over systems with the precision as what it stands for.

    What differs between the systems moves with them, along an axis named machine if need be.
    Raises: InputError for an unknown format, or one that a system's chip lacks.

    >>> from jaxroof.estimators import estimator
    >>> axes = {"system": ["h100-nvs8", "b200-nvs8"]}
    >>> rest, moving = precision_over_systems({"precision": "fp8"}, axes, estimator("training"))
    >>> moving["machine"]["states.weight_bytes"]
    [2.0, 1.0]
    """
    tables = {name: v if isinstance(v, Mapping) else {name: v} for name, v in axes.items()}
    place = next(name for name, moved in tables.items() if "system" in moved)
    moved = tables[place]
    each = [with_precision(settings, name, estimator) for name in moved["system"]]
    shared, differ = settings_by_system(each)
    if not differ:
        return shared, {**axes}
    rest = {name: values for name, values in axes.items() if name != place}
    return shared, {**rest, MACHINE if place == "system" else place: {**moved, **differ}}


def _check_native(name: str, system: Any) -> None:
    """Check that a system's chip, where it is known, has a number format.

    Raises: InputError for one that it lacks.
    """
    try:
        chip = chip_name(catalog.base_of("systems", system) or system)
    except (InputError, TypeError):
        return
    if chip not in NATIVE.get(name, (chip,)):
        able = (
            "expected bf16, fp8 or a system of Blackwell" if chip == "hopper" else "expected bf16"
        )
        raise refusal("precision", f"{name}: {system} has no products at it; {able}")


def _fp8_weight(system: Any) -> float:
    """Return the bytes of an FP8 weight on a system's chip, with the copy that it may need."""
    try:
        return FP8_WEIGHT[chip_name(system)]
    except (InputError, KeyError):
        known = "expected a system of Hopper or Blackwell, or precision=bf16 with weight_bytes"
        raise refusal("precision", f"fp8: not known for {system}; {known}") from None


def with_chip(
    settings: Mapping[str, Any], system: Any, chip: Chip | str | os.PathLike[str] | None = None
) -> tuple[Any, dict[str, Any]]:
    """Return a system, with another chip if one is asked for, and settings of the chip by path.

    ``chip`` in the settings is a chip of the catalogue or a file, ``chip.FIELD`` one of its fields.
    Raises: InputError for a chip that there is not.

    >>> machine, rest = with_chip({"chip": "blackwell", "chip.step": "1 ms"}, "h100-nvs8")
    >>> float(machine.chip.matmul), rest
    (0.728, {'system.chip.step': '1 ms'})
    """
    rest = {f"system.{k}" if k.startswith("chip.") else k: v for k, v in settings.items()}
    chip = rest.pop("chip", chip)
    if chip is None:
        return system, rest
    if isinstance(chip, Chip):
        machine = training_system(system) if isinstance(system, str | os.PathLike) else system
        return dataclasses.replace(machine, chip=chip), rest
    return dataclasses.replace(device(system), chip=chip_of(system, chip)), rest
