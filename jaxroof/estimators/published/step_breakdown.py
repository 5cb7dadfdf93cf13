"""The seconds that every operation adds to a training step.

The limits of an operation are the derivatives of its time with respect to the machine's rates and
latencies. Times are homogeneous of degree one in reciprocal rates and latencies, so by Euler's
theorem, seconds = - sum of dt / d ln(rate) + sum of dt / d ln(latency).
"""

from collections import OrderedDict

from jaxroof.estimators.published.inputs import Inputs
from jaxroof.estimators.published.layer_report import layer_reports
from jaxroof.estimators.published.recipe import Recipe
from jaxroof.estimators.published.step import exposed_sync_times, step
from jaxroof.estimators.published.step import published as estimator
from jaxroof.records import Number, with_named_absences

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
    Units: -> [s], which sum to the step time.
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
