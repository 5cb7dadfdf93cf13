"""The legal plans of a torus under MaxText, as columns of whole numbers.

Source: docs/models/networks.md, section 12.
"""

import math
import types
from collections.abc import Mapping
from typing import Any

import numpy as np

from jaxroof.estimator import Candidates, reads
from jaxroof.estimators.legality import Columns, Filter, cross, divisors, rows_where
from jaxroof.estimators.tpu_training.inputs import POLICIES, TpuInputs, TpuPlan, chip_of, chips_of
from jaxroof.estimators.tpu_training.legality import DEGREES, PARTED, RULES
from jaxroof.estimators.tpu_training.slices import AXES, SHAPES, sides, ways
from jaxroof.estimators.training.interval import half_width_within_source
from jaxroof.plan_lists import distinct_rows
from jaxroof.records import units, with_named_absences

MOST_SLICES = 32  # of any measured run (docs/models/networks.md, section 9)
COUNTS = ("heads", "kv_heads", "sequence")  # of the model that the rules read
CHIP = ("devices", "longest_x", "longest_y", "longest_z")  # of the chip


def plans(inputs: TpuInputs, _: Any) -> Candidates:
    """Return every legal plan for the chips, sorted by the fields of the plan.

    Of assignments to physical axes with the same links the first stands for all.

    Assumes: model, batch and chips are single numbers; at most 32 slices.
    Raises: InputError where a number is missing.
    """
    asked = rule_inputs(inputs)
    legal = Filter(asked, RULES)
    chips, all_devices = asked.gpus, asked.gpus * asked.system.tpu.devices
    counts = divisors(chips)
    rows = cross({"slice": np.arange(len(SHAPES))}, "slices", counts[counts <= MOST_SLICES])
    rows = legal.keep({**rows})
    degrees = divisors(all_devices)
    rows = legal.keep(cross(rows, "tensor", degrees))
    rows = legal.keep(cross(rows, "context", degrees))
    rows = legal.keep({**rows, "expert": np.ones_like(rows["slice"])})
    rows = cross(rows, "data", degrees)
    rows = rows_where(rows, all_devices % _product(rows) == 0)
    rows = legal.keep({**rows, "fsdp": all_devices // _product(rows)})
    rows = legal.keep(cross(rows, "microbatches", divisors(asked.global_batch)))
    for degree in PARTED:
        rows = _with_axes(rows, degree)
    rows = _distinct(asked, legal.keep(rows))
    rows = legal.keep(cross(rows, "dcn_fsdp", np.arange(2)))
    assert not legal.left, "rules that read fields no plan has"
    return Candidates(_ordered(rows), legal.refused, {"remat": np.arange(len(POLICIES))})


def rule_inputs(inputs: TpuInputs) -> Any:
    """Return what the rules read of the inputs, as whole numbers."""
    inputs = with_named_absences(inputs)
    model, tpu = inputs.model, chip_of(inputs)
    chip = {name: int(getattr(tpu, name)) for name in CHIP} | {"wrap": float(tpu.wrap)}
    return types.SimpleNamespace(
        model=types.SimpleNamespace(**{name: int(getattr(model, name)) for name in COUNTS}),
        system=types.SimpleNamespace(
            torus_axes=int(inputs.system.torus_axes), tpu=types.SimpleNamespace(**chip)
        ),
        gpus=int(chips_of(inputs)),
        global_batch=int(inputs.global_batch),
    )


def _product(rows: Columns) -> np.ndarray:
    found: np.ndarray = np.prod([rows[name] for name in DEGREES if name in rows], axis=0)
    return found


def _with_axes(rows: Columns, degree: str) -> Columns:
    """Return the rows with every set of whole axes that a degree can take, and a part of one."""
    rows, size = cross(rows, f"{degree}_axes", np.arange(len(AXES))), np.ones(1)
    place, shape = rows[f"{degree}_axes"], sides(rows["slice"])
    for bit, side in enumerate(shape[:3]):
        here = (place >> bit) & 1
        # an axis of one chip is nobody's
        size = size * np.where(here == 1, np.where(side > 1, side, 0), 1)
    return rows_where(rows, (place == 0) | ((size == rows[degree]) & (rows[degree] > 1)))


def _distinct(asked: Any, rows: Columns) -> Columns:
    """Return the first of the rows that have the same degrees and links."""
    degrees, places = ([rows[f"{name}{end}"] for name in PARTED] for end in ("", "_axes"))
    own = ways(asked.system.tpu, sides(rows["slice"]), degrees, places)
    fields = [column for name, column in rows.items() if not name.endswith("_axes")]
    links = [np.broadcast_to(one, len(fields[0])).astype(np.int64) for one in own]
    first, _ = distinct_rows([*fields, *links])
    return rows_where(rows, first)


def _ordered(rows: Columns) -> Columns:
    fields = [field for field in units(TpuPlan) if field != "remat"]
    columns = {field: rows[field].astype(np.int32) for field in fields}
    return rows_where(columns, np.lexsort([columns[field] for field in reversed(fields)]))


# ---- A plan of the user's -----------------------------------------------------------------------


def close(best: Any) -> float:
    """Return by which share of its step time others are too close to a plan to tell apart."""
    return math.expm1(float(half_width_within_source(int(best["regime"]))))


def why_not(inputs: Any, _: Any, given: Mapping[str, int]) -> str:
    """Return the rule that no plan with some fields keeps, in words; empty if there is none."""
    asked = rule_inputs(inputs)
    if given.get("slices", 1) > MOST_SLICES:
        return f"slices={given['slices']}: more than the {MOST_SLICES} of any measured run"
    chips = math.prod(SHAPES[given["slice"]]) if "slice" in given else 1
    if asked.gpus % chips:
        shape = _said("slice", given["slice"])
        return f"slice={shape}: {chips:,} chips, which do not divide {asked.gpus:,}"
    for rule in RULES:
        fields = reads(rule.holds)
        if {*fields} <= {*given} and not bool(rule.allows(asked, given)):
            said = ",".join(f"{name}={_said(name, given[name])}" for name in fields)
            numbers = {**vars(asked.model), "global_batch": asked.global_batch}
            fact = f"; {rule.fact.format(**numbers)}" if rule.fact else ""
            return f"{said}: not legal ({rule.words}){fact}"
    return ""


def _said(name: str, value: int) -> str:
    words = TpuPlan.__dataclass_fields__[name].metadata.get("flags", ())
    return words[value] if words else str(value)
