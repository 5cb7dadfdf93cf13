"""The rules for legal plans under MaxText, one verdict each.

Source: docs/models/networks.md, section 12.
"""

import itertools
from typing import Any

from jaxroof.estimators.legality import Rule
from jaxroof.estimators.tpu_training.slices import Sides, exists, sides, taken
from jaxroof.estimators.training.legality import HEADS, LEAST_TOKENS
from jaxroof.formulas.arithmetic import where

DEGREES = ("slices", "fsdp", "tensor", "context", "data", "expert")
PARTED = ("tensor", "context", "data")  # degrees whose physical axes a plan names


def devices(inputs: Any) -> Any:
    """Return the devices of all chips."""
    return inputs.gpus * inputs.system.tpu.devices


def _devices_used(
    inputs: Any, *, slices: Any, fsdp: Any, tensor: Any, context: Any, data: Any, expert: Any
) -> Any:
    return slices * fsdp * tensor * context * data * expert == devices(inputs)


def _slice_exists(inputs: Any, *, slices: Any, slice: Any) -> Any:
    shape, system = sides(slice), inputs.system
    whole = slices * shape.x * shape.y * shape.z == inputs.gpus
    return whole & exists(system.tpu, system.torus_axes, shape)


def _context(inputs: Any, *, context: Any) -> Any:
    sequence = inputs.model.sequence
    enough = (context == 1) | (sequence >= LEAST_TOKENS * context)
    return (sequence % context == 0) & enough


def _batch(inputs: Any, *, tensor: Any, context: Any, microbatches: Any) -> Any:
    each = devices(inputs) * microbatches
    return (inputs.global_batch * tensor * context) % each == 0


def _axes(
    inputs: Any,
    *,
    slice: Any,
    tensor: Any,
    context: Any,
    data: Any,
    tensor_axes: Any,
    context_axes: Any,
    data_axes: Any,
) -> Any:
    """Return whether whole axes have the degree and one owner, and parts have an axis to be on."""
    shape = sides(slice)
    degrees, places = (tensor, context, data), (tensor_axes, context_axes, data_axes)
    owns = [taken(place) for place in places]
    held = True
    for degree, place, mine in zip(degrees, places, owns, strict=True):
        held = held & ((place == 0) | (_length(shape, mine) == degree))
    for axis in range(3):
        a, b, c = (mine[axis] for mine in owns)
        held = held & ~((a & b) | (a & c) | (b & c))
    return held & _parts_fit(shape, degrees, places, owns)


def _length(shape: Sides, mine: Any) -> Any:
    sized = [where(here, side, 1.0) for here, side in zip(mine, shape[:3], strict=True)]
    return sized[0] * sized[1] * sized[2]


def _parts_fit(shape: Sides, degrees: Any, places: Any, owns: Any) -> Any:
    """Return whether degrees without whole axes divide axes that no other takes, together too."""
    parts = [where(place == 0, g, 1.0) for g, place in zip(degrees, places, strict=True)]
    rooms = [where(a | b | c, 1.0, side) for a, b, c, side in zip(*owns, shape[:3], strict=True)]
    fits: Any = False
    for on in itertools.product(range(3), repeat=3):
        good: Any = True
        for axis in {*on}:
            size: Any = 1.0
            for part, at in zip(parts, on, strict=True):
                size = size * part if at == axis else size
            good = good & (rooms[axis] % size == 0)
        fits = fits | good
    return fits


RULES = (
    Rule(
        "slice_exists",
        _slice_exists,
        "slices of a shape that the chip does not have, or that do not use every chip once",
        "The slices have a shape of the chip and use every chip once.",
    ),
    *HEADS,
    Rule(
        "context_divides",
        _context,
        f"context degrees that do not divide the sequence, or leave fewer than {LEAST_TOKENS} "
        "tokens",
        "Context degree divides the sequence into parts that are long enough.",
    ),
    Rule(
        "expert_alone",
        lambda inputs, *, expert: expert == 1,
        "expert degrees above 1: their all-to-all under MaxText was not measured",
        "Expert degree is 1: its all-to-all under MaxText was not measured.",
    ),
    Rule(
        "devices_used",
        _devices_used,
        "splits that do not use every device once",
        "The degrees multiply to the devices.",
    ),
    Rule(
        "batch_divisible",
        _batch,
        "splits and accumulation that do not divide the batch",
        "Every device has whole sequences in every step of accumulation.",
        "the batch is {global_batch:,.0f} sequences",
    ),
    Rule(
        "axes_free",
        _axes,
        "degrees that the axes of a slice have no place for",
        "Every logical axis has physical axes of its own, or a part of one.",
    ),
    Rule(
        "dcn_fsdp_slices",
        lambda inputs, *, dcn_fsdp, slices: (dcn_fsdp == 0) | (slices > 1),
        "weights shared over slices where there is one slice",
        "Weights are shared over slices where there are several.",
    ),
)
