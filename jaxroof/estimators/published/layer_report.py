"""One transformer layer, operation by operation, and what each adds to a training step."""

import dataclasses
from collections import OrderedDict

from jaxroof.estimators.published.inputs import Inputs
from jaxroof.estimators.published.layer_time import timings
from jaxroof.estimators.published.operations import LayerOperation, Operations, Ranks, operations
from jaxroof.estimators.published.recipe import Recipe
from jaxroof.estimators.published.step import exposed_sync_times, step
from jaxroof.estimators.published.step import published as estimator
from jaxroof.records import Number, quantity, record, with_named_absences


@record
class LayerReport:
    """One operation of one layer and one microbatch on one accelerator."""

    flops_forward: Number = quantity("FLOP", "Arithmetic, forward.")
    flops_backward: Number = quantity("FLOP", "Arithmetic, backward.")
    traffic_forward: Number = quantity("B", "Bytes moved in HBM, forward.")
    traffic_backward: Number = quantity("B", "Bytes moved in HBM, backward.")
    message_forward: Number = quantity("B", "Messages of the collectives, forward.")
    message_backward: Number = quantity("B", "Messages of the collectives, backward.")
    compute_forward: Number = quantity("s", "Time in arithmetic and launch, forward.")
    compute_backward: Number = quantity("s", "Time in arithmetic and launch, backward.")
    memory_forward: Number = quantity("s", "Time in HBM that arithmetic does not hide, forward.")
    memory_backward: Number = quantity("s", "Time in HBM that arithmetic does not hide, backward.")
    tensor_forward: Number = quantity("s", "Time in tensor-parallel communication, forward.")
    tensor_backward: Number = quantity("s", "Time in tensor-parallel communication, backward.")
    time_forward: Number = quantity("s", "Time forward.")
    time_backward: Number = quantity("s", "Time backward, with what is computed again.")
    kept: Number = quantity("B", "Activations kept for the backward pass.")
    weights: Number = quantity("B", "Weights.")


def layer_of_plan(inputs: Inputs, recipe: Recipe) -> Operations:
    """Return the operations of one layer, for the plan of the inputs."""
    plan = inputs.plan
    assert plan is not None
    bare = with_named_absences(dataclasses.replace(inputs, plan=None))
    return operations(bare, recipe, **{name: getattr(plan, name) for name in Ranks._fields})


def layer_reports(inputs: Inputs, recipe: Recipe) -> OrderedDict[str, LayerReport]:
    """Return every operation of one layer by name, in order, for the plan of the inputs.

    Source: docs/models/transformer_model.md, sections 3, 5 and 6.
    """
    layer = layer_of_plan(inputs, recipe)
    # jit would return a plain dict sorted by name
    return OrderedDict(
        (name, _report(one, with_named_absences(inputs))) for name, one in layer.items()
    )


def _report(operation: LayerOperation, inputs: Inputs) -> LayerReport:
    forward, backward = timings(operation, inputs.system)
    work = operation.work
    return LayerReport(
        flops_forward=work.forward.flops,
        flops_backward=work.backward.flops,
        traffic_forward=work.forward.traffic,
        traffic_backward=work.backward.traffic,
        message_forward=sum((message.volume for message in operation.forward), 0.0),
        message_backward=sum((message.volume for message in operation.backward), 0.0),
        compute_forward=forward.compute,
        compute_backward=backward.compute,
        memory_forward=forward.memory,
        memory_backward=backward.memory,
        tensor_forward=forward.communication,
        tensor_backward=backward.communication,
        time_forward=sum(forward),
        time_backward=sum(backward) + (sum(forward) if operation.recomputed else 0.0),
        kept=work.kept,
        weights=work.parameters * inputs.precision.weight,
    )


# ---- What each operation adds to a step ---------------------------------------------------------

FORWARD, BACKWARD = "forward", "backward"
GATHER, SCATTER, SENDS, BUBBLE = "weight gather", "gradient scatter", "stage sends", "bubble"


def contributions(inputs: Inputs, recipe: Recipe) -> OrderedDict[str, Number]:
    """Return the seconds that every operation adds to the step, for the plan of the inputs.

    t = sum of (t_f + t_b) M K over operations + t_gather + t_scatter + sends + bubble

    Each direction of an operation has its own entry. It includes its collectives (for panels,
    only their exposed time) and recomputation in the backward pass. The data-parallel gather and
    scatter count with their exposed time.

    Assumes: as the training step. More work hides more of a gather, so a partly exposed gather
    has a negative share in the limits of the layer that hides the rest.
    The limits of an operation are the derivatives of its time with respect to the machine's rates
    and latencies; by Euler's theorem, they sum to the seconds.
    Source: docs/models/transformer_model.md, sections 6 to 9.
    """
    inputs = with_named_absences(inputs)
    parts = estimator.evaluate_parts(inputs, recipe)
    whole = step(inputs, recipe, **parts)
    counts = parts["schedule_counts"]
    found: OrderedDict[str, Number] = OrderedDict()  # jit returns a plain dict sorted
    for name, operation in layer_reports(inputs, recipe).items():
        found[f"{name} {FORWARD}"] = operation.time_forward * counts.runs
        found[f"{name} {BACKWARD}"] = operation.time_backward * counts.runs
    found[GATHER], found[SCATTER] = exposed_sync_times(parts["block"], parts["sync"], counts.layers)
    found[SENDS], found[BUBBLE] = whole.time_pipeline, whole.time_bubble
    return found
