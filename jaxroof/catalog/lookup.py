"""Models and systems by name, from the catalogue or a file, as records."""

import dataclasses
import functools
import math
import os
from collections.abc import Mapping
from typing import Any, NamedTuple

from jaxroof import catalog
from jaxroof.catalog.architecture import Architecture
from jaxroof.catalog.chip import Chip
from jaxroof.catalog.fabrics import with_fabric
from jaxroof.catalog.models import Mlp, Model
from jaxroof.catalog.system import System
from jaxroof.catalog.tpu import TpuChip
from jaxroof.errors import InputError, NoAnswer, refusal, unknown
from jaxroof.records import checked, units, value_or
from jaxroof.settings import apply_settings, carrying

TODAY = "megatron"  # what a question is about that names no software


class Software(NamedTuple):
    """One software of the catalogue, with the terms of memory that it has."""

    name: str
    title: str
    formulas: str  # which function counts its terms
    settings: Mapping[str, Any]  # choices and numbers, unless a question says otherwise
    only: Mapping[str, tuple[Any, ...]]  # values of choices and fields that it can do


def software(name: str) -> Software:
    """Return a software of the catalogue."""
    written = catalog.describe("software", name)
    only = {key: tuple(values) for key, values in written.get("only", {}).items()}
    return Software(name, written["title"], written["formulas"], written["settings"], only)


# what a model's entry may set beside its numbers: choices of a training step or unfused blocks
CHOICES = ("split", "attention", "variant")
# what an architecture's entry may set beside its numbers: choices of the recipes of `training`
ARCHITECTURE_CHOICES = ("attention", "recurrence", "mlp", "norm", "biases", "embeddings")


def model(name: str | os.PathLike[str], **fields: Any) -> Model:
    """Return a model from the catalogue, or from a TOML file given by path, with fields changed.

    The result has numbers only. Recipe choices that the entry sets (attention = "unfused") apply
    when the model is given by name in the settings, ``model="name"``.

    Raises: InputError for an unknown name or field (with the nearest), or a value out of range.

    >>> float(model("gpt3-1t", layers=64).layers)
    64.0
    """
    return _record(Model, _model_entry(name), name, fields)


def model_with_choices(name: str) -> tuple[Model, dict[str, str]]:
    """Return a model as ``model`` does, and the recipe choices that its entry sets."""
    entry = _model_entry(name)
    return _record(Model, entry, name, {}), {key: entry[key] for key in CHOICES if key in entry}


def _model_entry(name: str | os.PathLike[str]) -> dict[str, Any]:
    return catalog.entry("models", name, units(Model), _optional(Model), CHOICES)


def architecture(name: str | os.PathLike[str], **fields: Any) -> Architecture:
    """Return a model of today from the catalogue or from a file, with fields changed.

    It brings the choices of its entry along: they apply as those of a model by name do, wherever no
    recipe is given.

    Raises: InputError for an unknown name or field (with the nearest), or a value out of range.

    >>> float(architecture("llama3-8b", layers=16).layers)
    16.0
    """
    found, choices = architecture_with_choices(name)
    try:
        changed = checked(apply_settings(found, None, fields)[0])
    except InputError as error:
        raise refusal(str(name), str(error)) from None
    made: Architecture = carrying(changed, choices)
    return made


def architecture_with_choices(
    name: str | os.PathLike[str] | catalog.Table,
) -> tuple[Architecture, dict[str, str]]:
    """Return a model of today by name or from a file, and the recipe choices that its entry sets.

    >>> found, choices = architecture_with_choices("mixtral-8x7b")
    >>> float(found.experts), choices["mlp"]
    (8.0, 'gated')
    """
    fields = units(Architecture)
    choices = ARCHITECTURE_CHOICES
    entry = catalog.entry("architectures", name, fields, _optional(Architecture), choices)
    entry.setdefault("recurrence", "none")  # files of yesterday do not say
    missing = [key for key in ARCHITECTURE_CHOICES if key not in entry]
    if missing:
        raise refusal(_called(name), f"{', '.join(missing)}: missing; expected a choice each")
    chosen = {key: entry[key] for key in ARCHITECTURE_CHOICES}
    return _record(Architecture, entry, name, {}), chosen


def trained_architecture(
    name: str | os.PathLike[str] | catalog.Table,
) -> tuple[Architecture, dict[str, str]]:
    """Return a model of today and its choices, if its training has a formula.

    Raises: InputError for one of whose layers only the parameters are counted.
    """
    found, choices = architecture_with_choices(name)
    refuse_untrained(_called(name), found, choices)
    return found, choices


def refuse_untrained(where: str, found: Architecture, choices: Mapping[str, str]) -> None:
    """Raise an InputError for a model of which only parameters are counted."""
    reason = only_parameters(found, choices)
    if reason:
        raise refusal(where, reason)


def only_parameters(found: Architecture, choices: Mapping[str, str]) -> str:
    """Return why only the parameters of a model are counted, or nothing."""
    size = {"heads": found.value_size}.get(choices.get("attention", "heads"), 0.0)
    if found.shared_kv:
        said = "shared_kv: values are the keys: parameters only; expected values of their own"
        return f"{said}, which time and memory take"
    if size not in (0.0, found.head_size):
        said = f"value_size: {size:.0f} beside keys of {found.head_size:.0f}: parameters only"
        return f"{said}; expected one size, which time and memory take"
    return ""


def mlp(name: str | os.PathLike[str], **fields: Any) -> Mlp:
    """Return an MLP from the catalogue, or from a TOML file given by path, with fields changed.

    Raises: InputError for an unknown name or field (with the nearest), or a value out of range.
    """
    entry = catalog.entry("mlps", name, units(Mlp), _optional(Mlp))
    return _record(Mlp, entry, name, fields)


def system(
    name: str | os.PathLike[str] | catalog.Table,
    number_format: str | None = None,
    *,
    reported: bool | None = None,
    calibrated: bool = False,
    **fields: Any,
) -> System:
    """Return a system from the catalogue, or from a TOML file given by path, with fields changed.

    ``number_format`` (bf16, fp8, fp4, int8, fp32) sets the matrix rate to that format's peak;
    texts carry units. ``reported`` takes what the device reports as the capacity (True) or leaves
    it out (False); ``calibrated`` adds what training gets of its chip.

    Raises: InputError for an unknown name, format or field (with the nearest), or a wrong unit.

    >>> float(system("h200-nvs4", hbm_capacity="192 GB").hbm_capacity)
    192000000000.0
    >>> float(system("h200-nvs4", "fp8").matrix_flops)
    1978900000000000.0
    """
    entry = catalog.entry("systems", name, units(System))
    if number_format is not None:
        if not isinstance(number_format, str) or number_format not in entry["peaks"]:
            raise unknown(_called(name), number_format, "number format with a peak", entry["peaks"])
        entry["matrix_flops"] = entry["peaks"][number_format]
    if "hbm_capacity" in fields:  # what the device reports is of the other capacity
        entry.pop("hbm_reported", None)
    if "nics_per_node" in entry and "nics" not in fields:
        fields = {key: entry[key] for key in ("nics", "nics_per_node") if key in entry} | fields
    fabric = fields.pop("fabric", entry.get("fabric"))
    links = {key: fields.pop(key) for key in [*fields] if key.startswith(("tiers", "library"))}
    found = _record(System, entry, name, fields)
    if fabric is not None or "tiers" in entry:
        found = with_fabric(found, fabric, entry.get("tiers", ()), entry.get("library", {}), name)
    found = _settled(found, name, links) if links else found
    if reported is not None:
        none: Any = None
        found = as_reported(found) if reported else dataclasses.replace(found, hbm_reported=none)
    return dataclasses.replace(found, chip=chip_of(name)) if calibrated else found


def as_reported(found: System) -> System:
    """Return a system whose capacity is that which the device reports, where it is known."""
    capacity = value_or(found.hbm_reported, found.hbm_capacity)
    none: Any = None  # the other capacity would be of another label
    return dataclasses.replace(found, hbm_capacity=capacity, hbm_reported=none)


# Questions that name a system take the label's capacity, so that files which they wrote go on; a
# training step takes its chip, and the capacity that the device reports where it is known.
labelled_system = functools.partial(system, reported=False)
device = functools.partial(system, reported=True)
training_system = functools.partial(system, reported=True, calibrated=True)


def chip(name: str | os.PathLike[str] | catalog.Table, **fields: Any) -> Chip:
    """Return what training gets of a generation of chips, with fields changed.

    A file is one of constants, or a system's with its ``chip``, as ``jaxroof calibrate`` writes.

    >>> float(chip("hopper").matmul)
    0.703
    """
    entry = catalog.entry("chips", catalog.inner_table(name, "chip"), units(Chip), _optional(Chip))
    return _record(Chip, entry, name, fields)


def _generations() -> dict[str, str]:
    """Return the systems of the catalogue whose chip is known: system -> chip."""
    entries = {name: catalog.describe("chips", name) for name in catalog.names("chips")}
    return {one: name for name, written in entries.items() for one in written["systems"]}


def known_chip(system: Any) -> str | None:
    """Return the name of the chip of a system, None where no run of it was measured."""
    known = _generations()
    if str(system) in catalog.names("fabrics") and str(system) not in known:
        system = catalog.describe("fabrics", str(system)).get("system", system)
    return known.get(str(system))


def chip_name(system: Any) -> str:
    """Return the name of the chip of a system.

    Raises: NoAnswer for one of which no run was measured.
    """
    name = known_chip(system)
    if name is None:
        said = "no measured run of its chip, so that it has no step time; expected a system of"
        able = "h100-nvs8, h200-141-sxm, b200-180-sxm, gb200-nvl72, a100-80-sxm"
        raise NoAnswer(f"{system}: {said} a calibrated chip, such as {able}")
    return name


def chip_of(
    system: str | os.PathLike[str] | catalog.Table, own: str | os.PathLike[str] | None = None
) -> Chip:
    """Return what training gets of the chip of a system, with the system's peaks at few bits.

    ``own`` is another chip's name, or a file of constants, such as ``jaxroof calibrate`` writes:
    constants of another chip count as not calibrated, unless a file says otherwise.

    >>> chip = chip_of("gb200-nvl72")
    >>> float(chip.matmul), float(chip.fp8_flops)
    (0.728, 5000000000000000.0)
    """
    entry = catalog.entry("systems", system, units(System))
    refuse_torus(system)
    written = entry.get("chip") if own is None else own
    if isinstance(written, Mapping):
        written = catalog.Table(f"{_called(system)}: chip", written)
    base = None if written is not None else catalog.base_of("systems", system)
    name = written if base is None else known_chip(base)
    name = known_chip(_called(system)) if name is None else name
    near: Any = known_chip(nearest_system(system)) if name is None else name
    peaks = entry["peaks"]
    few = {f"{form}_flops": peaks[form] for form in ("fp8", "fp4") if form in peaks}
    if isinstance(near, str) and not catalog.is_file(near):  # a chip may lack what is sold with it
        stated = catalog.describe("chips", catalog.canonical("chips", near))
        few = {field: rate for field, rate in few.items() if field not in stated}
    about = {} if name is not None else {"calibrated": 0.0}
    if isinstance(written, str) and not catalog.is_file(written):
        base = catalog.base_of("systems", system)  # without one, the system's file is believed
        known = catalog.describe("chips", catalog.canonical("chips", written))["systems"]
        about = {"calibrated": float(base is None or base in known)}
    return chip(near, **few, **about)


def nearest_system(name: str | os.PathLike[str] | catalog.Table) -> str:
    """Return the system nearest to another whose chip is known, of its vendor where that is AMD.

    By the logarithms of matrix rate and memory bandwidth, then of the fast domain.

    >>> nearest_system("h100-book"), nearest_system("rtx-4090")
    ('h100-sxm', 'a100-40-sxm')
    """
    found = system(name)
    amd = "AMD" in catalog.entry("systems", name, units(System))["title"]

    def apart(other: System, *fields: str) -> float:
        pairs = ((getattr(found, field), getattr(other, field)) for field in fields)
        gaps = [math.log(float(a / b)) for a, b in pairs if a is not None]
        return math.hypot(*gaps)

    def distance(other: str) -> tuple[bool, float, float]:
        known = system(other)
        vendor = ("AMD" in catalog.describe("systems", other)["title"]) != amd
        rates = apart(known, "matrix_flops", "hbm_bandwidth")
        return vendor, rates, apart(known, "fast_domain")

    return min(_generations(), key=distance)


def nearest_words(system: Any) -> str:
    """Return that no run of the chip of a system was measured, in a sentence; empty if one was."""
    if isinstance(system, System) or is_torus(system):
        return ""
    entry = catalog.entry("systems", system, units(System))
    if "chip" in entry or known_chip(catalog.base_of("systems", system) or _called(system)):
        return ""
    title = catalog.describe("chips", _generations()[nearest_system(system)])["title"]
    said = f"No run on the chip of {_called(system)} was measured"
    return f"{said}: its constants are those of {title.split(':')[0]}, the nearest that was."


def tpu_of(system: str | os.PathLike[str] | catalog.Table) -> TpuChip:
    """Return what MaxText gets of the chip of a torus by name or file.

    A generation that was never measured has the constants of the first with as many axes.

    >>> float(tpu_of("tpu-v5p").matmul), float(tpu_of("tpu-v3").calibrated)
    (0.815, 0.0)
    """
    entry = catalog.entry("systems", system, units(System))
    if "torus_axes" not in entry or "link_bandwidth" not in entry:
        said = "no torus of TPUs, so ask it apart from them: its software is not MaxText"
        raise NoAnswer(f"{_called(system)}: {said}")
    known = {one: name for name in catalog.names("tpus") for one in _tpu(name)["systems"]}
    own = known.get(str(catalog.base_of("systems", system)))
    flat = entry["torus_axes"] < 3.0
    name = own or next(n for n in known.values() if (_tpu(n)["longest_z"] == 1) == flat)
    peaks = {
        f"{form}_flops": entry["peaks"][form] for form in ("int8", "fp8") if form in entry["peaks"]
    }
    more = {} if own else {"devices": 1.0, "calibrated": 0.0} | peaks
    written = catalog.entry("tpus", name, units(TpuChip), _optional(TpuChip))
    return _record(TpuChip, written, name, more)


def _tpu(name: str) -> dict[str, Any]:
    return catalog.describe("tpus", name)


def is_torus(system: Any) -> bool:
    """Return whether a system, by name or file or as a record, is a torus of TPUs."""
    if isinstance(system, System):
        return system.tpu is not None
    written = catalog.describe("systems", system)
    return {"torus_axes", "link_bandwidth"} <= {*written}


def refuse_torus(system: Any) -> None:
    """Check that a question of Megatron's step is of no torus of TPUs.

    Raises: NoAnswer.
    """
    if not isinstance(system, System) and is_torus(system):
        said = "a torus of TPUs, whose step is MaxText's; expected search, explain, pareto, fit"
        raise NoAnswer(f"{_called(system)}: {said} --gpus, or compare of such systems alone")


def tpu_system(name: str | os.PathLike[str] | catalog.Table, **fields: Any) -> System:
    """Return a torus of TPUs with what MaxText gets of its chip, as ``training_system`` does.

    >>> float(tpu_system("tpu-v7").tpu.devices)
    2.0
    """
    return dataclasses.replace(device(name, **fields), tpu=tpu_of(name))


def serving_system(name: str | os.PathLike[str] | catalog.Table, **fields: Any) -> System:
    """Return a system with its rates at 8 and at 4 bits, and the capacity that it reports.

    The fast links of a torus are both directions of every axis, and its domain is a pod.

    >>> found = serving_system("h100-nvs8")
    >>> float(found.fp8_flops), found.fp4_flops
    (1978900000000000.0, None)
    """
    written = catalog.entry("systems", name, units(System))
    peaks = {f"{form}_flops": written["peaks"].get(form) for form in ("fp8", "fp4")}
    if {"torus_axes", "link_bandwidth", "pod"} <= {*written}:
        peaks["fast_bandwidth"] = 2.0 * written["torus_axes"] * written["link_bandwidth"]
        peaks["fast_domain"] = written["pod"]
    known = {f: rate for f, rate in peaks.items() if rate is not None and f not in written}
    return device(name, **{**known, **fields})


def with_chip(
    settings: Mapping[str, Any], system: Any, chip: Chip | str | os.PathLike[str] | None = None
) -> tuple[Any, dict[str, Any]]:
    """Return a system, with another chip if one is asked for, and settings of the chip by path.

    ``chip`` in the settings is a chip of the catalogue or a file, ``chip.FIELD`` one of its fields.

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
    if isinstance(system, System):
        raise refusal("chip", "a name beside a record of a system; expected a system by name")
    return dataclasses.replace(device(system), chip=chip_of(system, chip)), rest


def _optional(kind: type[Any]) -> list[str]:
    return [f.name for f in dataclasses.fields(kind) if f.default is not dataclasses.MISSING]


def _called(name: str | os.PathLike[str] | catalog.Table) -> str:
    """Return what an entry is called: its name, or where it is written."""
    return name.where if isinstance(name, catalog.Table) else str(name)


def _record(kind: type[Any], entry: dict[str, Any], name: Any, fields: dict[str, Any]) -> Any:
    known = {field: entry[field] for field in units(kind) if field in entry}
    return _settled(kind(**known), name, fields)


def _settled(start: Any, name: Any, fields: dict[str, Any]) -> Any:
    try:
        return checked(apply_settings(start, None, fields)[0])
    except InputError as error:
        raise refusal(_called(name), str(error)) from None
