"""Which stage is fullest, how many bytes it lacks, and what fills it.

Source: docs/models/parameters_flops_memory.md, sections 4, 5 and 7.
"""

import dataclasses
from typing import Any, NamedTuple

from jaxroof.estimators.training.memory_report import StageMemory
from jaxroof.formulas.arithmetic import larger, largest, stack
from jaxroof.lazy_jax import namespace
from jaxroof.records import Number


class FullestStage(NamedTuple):
    """The stage that decides whether a plan fits."""

    stage: Any  # its number, from 0
    peak_allocated: Number  # of all stages [B]; reserved and device are those of the same stage
    reserved: Number
    device: Number
    missing: Number  # [B] beyond the capacity, 0 if the plan fits
    fits: Any
    largest_term: Any  # its place in TERMS
    largest: Number  # [B]


def fullest_stage(memory: StageMemory, hbm_capacity: Number) -> FullestStage:
    """Return the fullest stage of a memory by stage, whose last dimension is that of stages.

    The capacity is what the device reports, not what its label says.
    """
    xp = namespace(memory.device)
    device: Any = memory.device
    stage = xp.argmax(device, axis=-1)

    def there(values: Any) -> Any:
        at = stage[..., None]
        return xp.take_along_axis(xp.broadcast_to(values, device.shape), at, axis=-1)[..., 0]

    terms = stack([there(getattr(memory, name)) for name in TERMS])
    full = there(device)
    return FullestStage(
        stage=stage,
        peak_allocated=there(memory.peak_allocated),
        reserved=there(memory.reserved),
        device=full,
        missing=larger(full - hbm_capacity, 0.0),
        fits=full <= hbm_capacity,
        largest_term=xp.argmax(terms, axis=0),
        largest=largest(terms),
    )


TERMS = tuple(  # every single term, and of the momentary ones the largest
    field.name
    for field in dataclasses.fields(StageMemory)
    if field.metadata["part_of"] in ("static", "activations") or field.name == "transient"
)
