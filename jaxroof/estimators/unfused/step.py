"""How long each operator of the blocks takes by itself, and their sums over all layers.

Source: docs/models/unfused_block_tables.md, sections 4 and 5.
"""

from typing import Any

from jaxroof.catalog import lookup as named
from jaxroof.catalog.system import System
from jaxroof.estimator import Estimator
from jaxroof.estimators.questions import QUESTIONS
from jaxroof.estimators.unfused.inputs import Inputs, example
from jaxroof.estimators.unfused.operators import Operation, Sent, operations
from jaxroof.estimators.unfused.recipe import DIVIDED, Recipe
from jaxroof.estimators.unfused.report import SUMMED, Operator, Report
from jaxroof.formulas import roofline
from jaxroof.formulas.arithmetic import larger, where
from jaxroof.formulas.ledger import Work
from jaxroof.records import Number, with_named_absences

BLOCK_NAMES = ("mlp", "attention")


def blocks(inputs: Inputs, recipe: Recipe) -> dict[str, tuple[Operator, ...]]:
    """Return the operators of each block of one layer, in order.

    Assumes: every operand moves between HBM and the chip, and communication hides behind nothing;
    peak rates.
    Units: see Operator.
    Source: docs/models/unfused_block_tables.md, section 4.
    """
    asked = with_named_absences(inputs)
    found = operations(asked, recipe.variant)
    return {name: tuple(_operator(one, asked) for one in found[name]) for name in BLOCK_NAMES}


def _operator(one: Operation, inputs: Inputs) -> Operator:
    system, ledger = inputs.system, one.ledger
    forward, backward = ledger.forward, ledger.backward
    rate = system.matrix_flops if one.matrix else system.vector_flops
    fast = (one.group <= system.fast_domain) & (inputs.fast_links > 0.0)
    compute_forward, memory_forward, work_forward = _work(forward, rate, system)
    compute_backward, memory_backward, work_backward = _work(backward, rate, system)
    sent_forward, sent_backward = _volume(one.forward), _volume(one.backward)
    links_forward = _links(sent_forward, fast, system)
    links_backward = _links(sent_backward, fast, system)
    time_forward, time_backward = work_forward + links_forward, work_backward + links_backward
    return Operator(
        name=one.name,
        collective_forward=one.forward.collective,
        collective_backward=one.backward.collective,
        flops_forward=forward.flops,
        activation_in=ledger.entering,
        activation_other=ledger.beside,
        activation_out=ledger.leaving,
        kept=ledger.kept,
        weights=ledger.weights,
        traffic_forward=forward.traffic,
        flops_backward=backward.flops,
        activation_gradients=ledger.gradients,
        weight_gradients=ledger.weight_gradients,
        traffic_backward=backward.traffic,
        message_backward=sent_backward,
        group=one.group,
        message_forward=sent_forward,
        compute_forward=compute_forward,
        memory_forward=memory_forward,
        compute_backward=compute_backward,
        memory_backward=memory_backward,
        intensity=_share(compute_forward, memory_forward),
        work_forward=work_forward,
        work_backward=work_backward,
        links_forward=links_forward,
        links_backward=links_backward,
        time_forward=time_forward,
        time_backward=time_backward,
        links_share_forward=_share(links_forward, time_forward),
        links_share_backward=_share(links_backward, time_backward),
        there_forward=one.forward.there,
        there_backward=one.backward.there,
        fast=fast,
    )


def _work(work: Work, rate: Number, system: System) -> tuple[Number, Number, Number]:
    """Return the seconds of arithmetic, of HBM traffic and of the longer of them."""
    compute = roofline.compute_time(work.flops, rate, 1.0, 0.0)
    memory = work.traffic / system.hbm_bandwidth
    return compute, memory, larger(compute, memory)


def _volume(sent: Sent) -> Number:
    return where(sent.there, sent.volume, 0.0)


def _links(volume: Number, fast: Any, system: System) -> Number:
    """Return the seconds of a message: no latency, the same for every collective."""
    return where(fast, volume / system.fast_bandwidth, volume / system.slow_bandwidth)


def _share(part: Number, whole: Number) -> Number:
    """Return a ratio, 0 of nothing."""
    return part / where(whole > 0.0, whole, 1.0)


def step(inputs: Inputs, recipe: Recipe) -> Report:
    """Return the sums over each block and over both, of all layers.

    Assumes: equal layers, one after the other; nothing beside them.
    Units: see Report.
    Source: docs/models/unfused_block_tables.md, section 5.
    """
    found = blocks(inputs, recipe)
    depth = inputs.model.layers
    sums: dict[str, Any] = {}
    for name, operators in found.items():
        for field in SUMMED:
            sums[f"{name}_{field}"] = depth * sum(getattr(one, field) for one in operators)
        sums[f"{name}_links_share"] = _share(
            sums[f"{name}_links_forward"], sums[f"{name}_time_forward"]
        )

    def both(*fields: str) -> Number:
        return sum(sums[f"{name}_{field}"] for name in found for field in fields)

    step_time = both("time_forward", "time_backward")
    flops = both("flops_forward", "flops_backward")
    return Report(
        **sums,
        step_time=step_time,
        throughput=_share(inputs.batch, step_time),
        flops=flops,
        memory=both("weights", "weight_gradients", "kept"),
        links_share=_share(both("links_forward", "links_backward"), step_time),
        utilisation=_share(flops, step_time * inputs.system.matrix_flops),
        degrees_divide=_divide(inputs, recipe),
    )


def _divide(inputs: Inputs, recipe: Recipe) -> Any:
    """Return whether each degree divides what it cuts: nothing is left out."""
    held: Any = True
    for degree, fields in DIVIDED[recipe.variant].items():
        for field in fields:
            left = getattr(inputs.model, field) % getattr(inputs.plan, degree)
            held = held & (left == 0.0)
    return held


unfused = Estimator(
    name="unfused",
    inputs=Inputs,
    recipe=Recipe(),
    step=step,
    names={"model": named.model_with_choices, "system": named.labelled_system},
    example=example,
    about=QUESTIONS["unfused"],
)
