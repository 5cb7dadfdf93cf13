"""Rows that state a run of Megatron-LM of today by the common columns alone, without options.

Source: docs/models/parameters_flops_memory.md, sections 4 and 10.
"""

import re

from jaxroof.errors import refusal
from jaxroof.estimators.training.memory_inputs import (
    MIB,
    Activations,
    Buffers,
    MemoryInputs,
    MemoryPlan,
    States,
)
from jaxroof.estimators.training.memory_recipe import (
    ContextExchange,
    MemoryRecipe,
    Module,
    Recompute,
)
from jaxroof.validation.measured_rows import Row, count, number, text
from jaxroof.validation.memory.models import described, named_architecture
from jaxroof.validation.memory.plans import (
    Described,
    automatic_kernel,
    chip,
    degrees,
    expert_degree,
    legal_inputs,
    sequence_parallel,
)

SIMUMAX = "SimuMax"
STAGES = {"none": 0.0, "ZeRO-0": 0.0, "DDP (FSDP=0)": 0.0, "ZeRO-1": 1.0}
FITTED = 50.0 * MIB  # workspace; 48.25 MiB by section 10.2


def common_inputs(row: Row) -> tuple[MemoryInputs, MemoryRecipe, str]:
    """Return the inputs and the recipe of a row, and the kind of row.

    Kernels are by rule: the automatic attention kernel of the chip, the fused loss.
    Raises: InputError for what is lacking or not modelled.
    """
    precision = text(row, "precision").upper()
    if precision != "BF16":
        raise refusal("precision", f"{precision}: copies of weights not modelled for such rows")
    architecture, made = named_architecture(row)
    note = row.cells.get("note", "")
    plan = MemoryPlan(
        **degrees(row),
        interleave=count(row, "vp", 1.0),
        expert=expert_degree(row, float(architecture.experts)),
        sequence_parallel=sequence_parallel(row),
    )
    simumax = text(row, "source").startswith(SIMUMAX)
    if architecture.mtp_layers > 0.0 or "MTP" in note:
        raise refusal("note", "multi-token prediction: its modules are not stated by columns")
    capacity = re.search(r"capacity factor (\d+(?:\.\d+)?)", note)
    found = Described(
        *described(architecture, made),
        plan=plan,
        states=States(
            zero_stage=_zero_stage(row),
            extra_token=float(simumax),  # its scripts have the null tokenizer, which adds one
        ),
        activations=Activations(capacity_factor=float(capacity[1]) if capacity else 0.0),
        buffers=Buffers(workspace=FITTED),
    )
    recompute, modules = _recomputed(row)
    kernel = MemoryRecipe().attention_kernel if simumax else automatic_kernel(chip(row), True)
    recipe = MemoryRecipe(
        recompute=recompute,
        modules=modules,
        attention_kernel=kernel,
        context_exchange=ContextExchange.ALL_TO_ALL,
    )
    experts = architecture.experts > 0.0
    kind = "MoE" if experts else "dense"
    if experts and capacity:
        kind = "MoE, capacity"
    return (
        legal_inputs(row, found, recipe),
        recipe,
        kind if simumax else f"{kind}, kernels by rule",
    )


def _zero_stage(row: Row) -> float:
    given = text(row, "zero_fsdp")
    for name, stage in STAGES.items():
        if given == name or given.startswith(f"{name} ("):
            return stage
    raise refusal("zero_fsdp", f"{given}: not modelled; expected one of {', '.join(STAGES)}")


def _recomputed(row: Row) -> tuple[Recompute, frozenset[Module]]:
    given = text(row, "recompute")
    if given in ("none", "full"):
        return Recompute(given), frozenset()
    policy, _, named = given.partition(":")
    known = {member.value: member for member in Module}
    names = [name.strip() for name in named.split("+")] if named else ["core_attn"]
    if policy != "selective" or not {*names} <= {*known}:
        raise refusal("recompute", f"{given}: not modelled; expected none, full or selective")
    return Recompute.SELECTIVE, frozenset(known[name] for name in names)


def stated_reserved(row: Row) -> float | None:
    """Return the reserved peak [B] that a note states in GiB, None if it does not."""
    found = re.search(r"peak reserved (\d+(?:\.\d+)?) GiB", row.cells.get("note", ""))
    if "measured_reserved_memory_bytes" in row.cells:
        return number(row, "measured_reserved_memory_bytes")
    return float(found[1]) * 2.0**30 if found else None
