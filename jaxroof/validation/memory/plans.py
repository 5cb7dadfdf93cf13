"""The plan of a measured row, and what several kinds of rows share."""

import dataclasses
from typing import NamedTuple

from jaxroof.errors import refusal, shown
from jaxroof.estimators.training.legality_words import refuse_illegal
from jaxroof.estimators.training.memory_inputs import (
    MIB,
    Activations,
    Buffers,
    Counts,
    MemoryInputs,
    MemoryPlan,
    States,
)
from jaxroof.estimators.training.memory_model import MemoryModel
from jaxroof.estimators.training.memory_recipe import AttentionKernel, MemoryRecipe
from jaxroof.limits import check_bound
from jaxroof.records import checked
from jaxroof.validation.measured_rows import Row, count, text

TE_WORKSPACE = {"A100": 4.0 * MIB}  # of Transformer Engine; 32 MiB on Hopper and Blackwell
TORCH_WORKSPACE = {"A100": 8.125 * MIB}
NEWER = 32.0 * MIB
HANDLES = 2.0  # the forward and the autograd thread
KERNELS = {"H100": AttentionKernel.CUDNN, "H200": AttentionKernel.CUDNN}  # of automatic choice


class Described(NamedTuple):
    """A row as the memory of a stage sees it."""

    model: MemoryModel
    counts: Counts
    plan: MemoryPlan
    states: States = States()
    activations: Activations = Activations()
    buffers: Buffers = Buffers()


def degrees(row: Row) -> dict[str, float]:
    """Return the degrees, the microbatch and the number of microbatches of a row.

    Raises: InputError if a column is blank, or the degrees contradict accelerators or batch.
    """
    found = {
        "data": count(row, "dp"),
        "tensor": count(row, "tp"),
        "pipeline": count(row, "pp"),
        "context": count(row, "cp", 1.0),
        "microbatch": count(row, "mbs"),
    }
    used = found["data"] * found["tensor"] * found["pipeline"] * found["context"]
    gpus, batch = count(row, "gpus"), count(row, "gbs")
    if used != gpus:
        raise refusal("gpus", f"given {gpus:.0f}, but dp tp pp cp make {used:.0f}")
    check_bound("pp", "layers", found["pipeline"])
    times = batch / (found["data"] * found["microbatch"])
    if times != int(times):
        raise refusal("gbs", f"given {batch:.0f}, which dp times mbs does not divide")
    return {**found, "microbatches": times}


def expert_degree(row: Row, experts: float) -> float:
    """Return the expert-parallel degree; a model without experts has 1."""
    return count(row, "ep") if experts > 0.0 else count(row, "ep", 1.0)


def sequence_parallel(row: Row) -> float:
    """Return 1 if tensor ranks share the tokens; one rank has nothing to share."""
    if count(row, "tp") == 1.0:
        return 0.0
    given = text(row, "seqpar")
    if given not in ("yes", "no"):
        raise refusal("seqpar", f"expected yes or no, given {shown(given)}")
    return float(given == "yes")


def legal_inputs(row: Row, found: Described, recipe: MemoryRecipe) -> MemoryInputs:
    """Return checked inputs of a row.

    Raises: InputError for a value out of range, or a plan that is not legal.
    """
    inputs = checked(
        MemoryInputs(
            model=found.model,
            counts=found.counts,
            sequence=count(row, "seq"),
            plan=found.plan,
            states=found.states,
            activations=found.activations,
            buffers=found.buffers,
            gpus=count(row, "gpus"),
            global_batch=count(row, "gbs"),
        )
    )
    refuse_illegal(_judged(inputs), recipe)
    return inputs


def _judged(inputs: MemoryInputs) -> MemoryInputs:
    """Return inputs for the rules of legality, which know groups as wide as the pipeline alone."""
    plan = inputs.plan
    if plan.microbatch_group == 0.0:
        return inputs
    whole = dataclasses.replace(plan, microbatches=plan.pipeline)
    return dataclasses.replace(inputs, plan=whole)


def chip(row: Row) -> str:
    """Return the accelerator of a row, as in ``DGX H100 80GB``.

    Raises: InputError if the system names none that is known.
    """
    words = text(row, "system").replace("-", " ").split()
    for word in words:
        if word in CHIPS:
            return word
    known = f"expected one that names {', '.join(CHIPS[:-1])} or {CHIPS[-1]}"
    raise refusal("system", f"{text(row, 'system')!r} names no accelerator that is known; {known}")


CHIPS = ("V100", "A100", "H100", "H800", "H20", "H200", "B200", "GB200", "B300", "GB300")


def workspace(name: str, engine: bool, large: bool) -> tuple[float, float]:
    """Return the workspaces of products, and of grouped products, of an accelerator.

    ``engine`` says whether Transformer Engine runs, ``large`` whether a variable sets PyTorch's
    workspace to 32 MiB. Source: docs/models/parameters_flops_memory.md, section 10.2.
    """
    te = TE_WORKSPACE.get(name, NEWER) if engine else 0.0
    torch = NEWER if large else TORCH_WORKSPACE.get(name, NEWER)
    return te + HANDLES * torch, 4.0 * te


def automatic_kernel(name: str, engine: bool) -> AttentionKernel:
    """Return the attention kernel of a run that names none, by the rule of the sheet.

    Source: docs/models/parameters_flops_memory.md, section 10.3.
    """
    if not engine:
        return AttentionKernel.UNFUSED
    return KERNELS.get(name, AttentionKernel.FLASH)
