"""Rows of runs that shard every parameter: FSDP2 as torchtitan runs it, FSDP of llm-foundry.

Source: docs/models/parameters_flops_memory.md, sections 4.4, 9 and 10.4.
"""

import re
from typing import Any, NamedTuple

from jaxroof.errors import refusal, unknown
from jaxroof.estimators.training.fsdp2_memory import (
    Ends,
    Fsdp2Loss,
    Fsdp2Plan,
    Fsdp2Recipe,
    Fsdp2Recompute,
)
from jaxroof.estimators.training.memory_inputs import Buffers, Counts, MemoryInputs, States
from jaxroof.estimators.training.memory_inputs import MemoryPlan as Plan
from jaxroof.estimators.training.memory_model import MemoryModel
from jaxroof.estimators.training.memory_recipe import MemoryRecipe, Recompute
from jaxroof.validation.measured_rows import (
    Options,
    Row,
    count,
    option_count,
    options,
    text,
)
from jaxroof.validation.memory.models import MPT, described, named_architecture, plain_architecture
from jaxroof.validation.memory.plans import Described, degrees, legal_inputs

SETTINGS = ("recompute", "loss", "ends", "compile", "head_size", "qk_norm")
HEAD_APART = "2025-07"  # from this month on torchtitan groups the head apart
POLICIES = {  # of the column recompute, where no settings say it
    "none": Fsdp2Recompute.NONE,
    "full": Fsdp2Recompute.FULL,
    "op": Fsdp2Recompute.OPERATORS,
    "selective": Fsdp2Recompute.OPERATORS,
    "selective op": Fsdp2Recompute.OPERATORS,
    "selective (per-op SAC)": Fsdp2Recompute.OPERATORS,
}


class Fsdp2Question(NamedTuple):
    """A row as FSDP2 sees it."""

    model: MemoryModel
    counts: Counts
    plan: Fsdp2Plan
    recipe: Fsdp2Recipe
    sequence: float


def fsdp2_question(row: Row) -> tuple[Fsdp2Question, str]:
    """Return what FSDP2's memory of a row depends on, and the kind of row.

    Raises: InputError for what FSDP2 cannot do, or what is lacking.
    """
    found = degrees(row)
    if found["pipeline"] > 1.0:
        raise refusal("pp", "FSDP2 with a pipeline: not modelled")
    if count(row, "moe_experts", 0.0) > 0.0:
        raise refusal("moe_experts", "experts under FSDP2: not modelled")
    architecture, made = named_architecture(row)
    given = options(row)
    _check_model(given, float(architecture.head_size), float(architecture.head_norms))
    model, counts = described(architecture, made)
    plan = Fsdp2Plan(**{name: found[name] for name in ("data", "tensor", "context", "microbatch")})
    recipe = _stated(given) if given else _by_rule(row)
    kind = "FSDP2" if given else "FSDP2, loss by rule"
    return Fsdp2Question(model, counts, plan, recipe, count(row, "seq")), kind


def _check_model(given: Options, head_size: float, head_norms: float) -> None:
    for name in given:
        if name not in SETTINGS:
            raise unknown("settings", name, "option of an FSDP2 row", SETTINGS)
    if option_count(given, "head_size", head_size) != head_size:
        raise refusal("head_size", f"the model of the catalogue has {head_size:.0f}")
    if option_count(given, "qk_norm", min(head_norms, 1.0)) != min(head_norms, 1.0):
        raise refusal("qk_norm", "the model of the catalogue has another choice")


def _stated(given: Options) -> Fsdp2Recipe:
    """Return the recipe that the settings of a row state."""
    if "compile" not in given:
        raise refusal("compile", "not given; expected no, blocks or yes")
    return Fsdp2Recipe(
        recompute=_member(Fsdp2Recompute, given, "recompute"),
        loss=_member(Fsdp2Loss, given, "loss"),
        ends=_member(Ends, given, "ends"),
        compiled=given["compile"] != "no",
    )


def _member(kind: Any, given: Options, name: str) -> Any:
    members = {member.value: member for member in kind}
    if name not in given:
        raise refusal(name, f"not given; expected one of {', '.join(members)}")
    if given[name] not in members:
        raise unknown(name, given[name], f"{name} of FSDP2", members)
    return members[given[name]]


def _by_rule(row: Row) -> Fsdp2Recipe:
    """Return the recipe of a row without settings: an eager loss, ends by date.

    Compilation is what the note says; products in FP8 count as those in bf16 do.
    """
    policy, since = text(row, "recompute"), text(row, "date_version")
    if policy not in POLICIES:
        raise refusal("recompute", f"{policy}: not modelled under FSDP2")
    if not re.match(r"\d{4}-\d\d", since):
        raise refusal("date_version", "no date, which says how torchtitan groups the head")
    return Fsdp2Recipe(
        recompute=POLICIES[policy],
        loss=Fsdp2Loss.EAGER,
        ends=Ends.HEAD if since[:7] >= HEAD_APART else Ends.ROOT,
        compiled="compile" in row.cells.get("note", ""),
    )


# ---- FSDP of llm-foundry ------------------------------------------------------------------------


def foundry_inputs(row: Row) -> tuple[MemoryInputs, MemoryRecipe, str]:
    """Return the inputs of a run of llm-foundry: fp32 shards, a fused loss, cuDNN's attention.

    Raises: InputError for what is lacking or not modelled.
    """
    if not text(row, "model").startswith("MPT"):
        raise refusal("model", "expected an MPT: the shape of others under FSDP is not stated")
    note = row.cells.get("note", "")
    if "CPU offload True" in note:
        raise refusal("note", "states in host memory: not modelled")
    shared = text(row, "zero_fsdp").removeprefix("FSDP ")
    if shared not in SHARDED:
        raise unknown("zero_fsdp", shared, "sharding of FSDP", SHARDED)
    policies = {"none": Recompute.NONE, "full": Recompute.FULL}
    policy = text(row, "recompute")
    if policy not in policies:
        raise unknown("recompute", policy, "policy of llm-foundry", policies)
    architecture = plain_architecture(row, positions=count(row, "seq"))
    layers = count(row, "layers")
    found = Described(
        *described(architecture, MPT),
        plan=Plan(**degrees(row), sequence_parallel=0.0),
        states=States(
            zero_stage=3.0,
            weight_bytes=4.0,
            gradient_bytes=4.0,
            master_bytes=0.0,
            prefetch=layers if SHARDED[shared] else 1.0,
        ),
        buffers=Buffers(gradient_placeholders=0.0),
    )
    recipe = MemoryRecipe(recompute=policies[policy])
    return legal_inputs(row, found, recipe), recipe, "FSDP of llm-foundry"


SHARDED = {"FULL_SHARD": False, "SHARD_GRAD_OP": True}  # whether layers stay gathered
