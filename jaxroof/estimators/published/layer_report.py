"""One transformer layer, operation by operation."""

import dataclasses
from collections import OrderedDict

from jaxroof.estimators.published.inputs import Inputs
from jaxroof.estimators.published.layer import LayerOperation, Messages
from jaxroof.estimators.published.layer_time import Timing, timings
from jaxroof.estimators.published.operations import operations
from jaxroof.estimators.published.recipe import Recipe
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


def layer_reports(inputs: Inputs, recipe: Recipe) -> OrderedDict[str, LayerReport]:
    """Return every operation of one layer by name, in order, for the plan of the inputs.

    Units: see LayerReport.
    Source: docs/models/transformer_model.md, sections 3, 5 and 6.
    """
    plan = inputs.plan
    assert plan is not None
    bare = with_named_absences(dataclasses.replace(inputs, plan=None))
    layer = operations(
        bare,
        recipe,
        tensor=plan.tensor,
        context=plan.context,
        microbatch=plan.microbatch,
        panels=plan.panels,
        fast_tensor=plan.fast_tensor,
        fast_context=plan.fast_context,
    )
    # jit would return a plain dict sorted by name
    return OrderedDict((name, _report(operation, bare)) for name, operation in layer.items())


def _report(operation: LayerOperation, inputs: Inputs) -> LayerReport:
    forward, backward = timings(operation, inputs.system)
    work = operation.work
    again = _total(forward) if operation.recomputed else 0.0
    return LayerReport(
        flops_forward=work.forward.flops,
        flops_backward=work.backward.flops,
        traffic_forward=work.forward.traffic,
        traffic_backward=work.backward.traffic,
        message_forward=_volume(operation.forward),
        message_backward=_volume(operation.backward),
        compute_forward=forward.compute,
        compute_backward=backward.compute,
        memory_forward=forward.memory,
        memory_backward=backward.memory,
        tensor_forward=forward.communication,
        tensor_backward=backward.communication,
        time_forward=_total(forward),
        time_backward=_total(backward) + again,
        kept=work.kept,
        weights=work.parameters * inputs.precision.weight,
    )


def _total(timing: Timing) -> Number:
    return timing.compute + timing.memory + timing.communication


def _volume(messages: Messages) -> Number:
    return sum((message.volume for message in messages), 0.0)
