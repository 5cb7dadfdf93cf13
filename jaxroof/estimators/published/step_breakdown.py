"""What a training step is made of: the seconds that every operation adds to it.

What limits each of them is told by its derivatives with respect to the machine's rates and
latencies: times are of degree one in reciprocal rates and in latencies, so that (Euler) seconds =
- sum of dt / d ln(rate) + sum of dt / d ln(latency).
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
    """Return what every operation and direction adds to the step under the plan of the inputs.

    t = sum of (t_f + t_b) M K over operations + t_gather + t_scatter + sends + bubble

    Operations count with their collectives (of panels, what the work does not hide) and with what
    is computed again on the way back; the data-parallel gather and scatter with what shows.

    Assumes: as the training step. What hides behind work shrinks as the work grows: a gather that
    shows in part has a negative share in the limits of the layer that hides the rest.
    Units: -> [s], which sum to the step time.
    Source: docs/models/transformer_model.md, sections 6 to 9.
    """
    inputs = with_named_absences(inputs)
    parts = estimator.evaluate_parts(inputs, recipe)
    whole = step(inputs, recipe, **parts)
    counts = parts["schedule_counts"]
    found: OrderedDict[str, Number] = OrderedDict()  # a plain dict comes back from jit sorted
    for name, operation in layer_reports(inputs, recipe).items():
        found[f"{name} {FORWARD}"] = operation.time_forward * counts.runs
        found[f"{name} {BACKWARD}"] = operation.time_backward * counts.runs
    found[GATHER], found[SCATTER] = exposed_sync_times(parts["block"], parts["sync"], counts.layers)
    found[SENDS], found[BUBBLE] = whole.time_pipeline, whole.time_bubble
    return found
