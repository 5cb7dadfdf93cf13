"""A step of an MLP in detail: its pipeline stages, and every event on every device."""

from typing import Any

import jax
import numpy as np

from jaxroof import schedules as pipelines
from jaxroof.estimator import Column, Detail, Rows
from jaxroof.estimators.mlp_pipeline.costs import prices
from jaxroof.estimators.mlp_pipeline.inputs import Inputs
from jaxroof.estimators.mlp_pipeline.layers import widths
from jaxroof.estimators.mlp_pipeline.memory import weights
from jaxroof.estimators.mlp_pipeline.plans import legal
from jaxroof.estimators.mlp_pipeline.program import Network, events, program
from jaxroof.estimators.mlp_pipeline.recipe import Recipe, Sends
from jaxroof.estimators.mlp_pipeline.stages import counts
from jaxroof.estimators.mlp_pipeline.step import memory_limit, simulated
from jaxroof.estimators.pipelines import event_rows
from jaxroof.limits import check_memory, counted
from jaxroof.records import with_named_absences

EVENT = 2000  # bytes of an event while a trace is made and written
MEANINGS = {
    "forward": ("s", "Time of a forward visit"),
    "backward": ("s", "Time of a backward visit"),
    "send": ("s", "Time of a message to the next stage"),
    "sync": ("s", "Sums over replicas that nothing hides"),
    "done": ("s", "When the stage has done its visits"),
    "busy_share": ("1", "Share of the step that the stage is busy"),
    "idle_share": ("1", "Share of the step that the stage idles"),
    "memory": ("B", "Most memory that one device of the stage holds at once"),
    "weights": ("B", "Memory of the stage's weights on one device"),
    "layers": ("1", "Layers of the stage"),
    "memory_limit": ("B", "Memory that a step may fill"),
    "memory_fits": ("1", "Memory is at most the usable capacity"),
    "step_time": ("s", "Time of one step"),
}


def check_plan(inputs: Inputs, recipe: Recipe) -> None:
    """Check that the plan is legal, in words."""
    legal(with_named_absences(inputs), recipe.chosen())


def stage_rows(inputs: Inputs, recipe: Recipe) -> Rows:
    """Return work, idle time and memory of every stage."""
    assert inputs.plan is not None
    stages = int(inputs.plan.pipeline)
    found = jax.jit(lambda asked: _stages(with_named_absences(asked), recipe))(inputs)
    step_time = float(found.pop("step_time"))
    every: dict[str, Any] = {name: np.asarray(some)[:stages] for name, some in found.items()}
    limit = float(memory_limit(with_named_absences(inputs)))
    fits = every["memory"] <= limit
    every |= {"memory_limit": limit, "memory_fits": fits, "step_time": step_time}
    columns = {
        name: Column(
            values,
            ("stage",)[: np.ndim(values)],
            {"units": MEANINGS[name][0], "long_name": MEANINGS[name][1]},
        )
        for name, values in every.items()
    }
    return Rows({**columns, "stage": Column(np.arange(stages), ("stage",), {}, label=True)})


def _stages(inputs: Inputs, recipe: Recipe) -> dict[str, Any]:
    run = simulated(inputs, recipe)
    costs, held = run.costs, run.held
    return {
        "forward": costs.forward,
        "backward": costs.backward,
        "send": costs.send,
        "sync": costs.exposed,
        "done": run.done,
        "busy_share": run.busy,
        "idle_share": 1.0 - run.busy,
        "memory": run.memory,
        "weights": weights(run.inputs, held),
        "layers": held.high - held.low,
        "step_time": run.step_time,
    }


def event_list(inputs: Inputs, recipe: Recipe) -> Rows:
    """Return every operation of every device, in the order of the recipe.

    Raises: TooLarge for more events than fit in memory, with the way out.
    """
    inputs, choices = with_named_absences(inputs), recipe.chosen()
    count = int(counts(inputs, choices)[1])
    remedy = "expected fewer microbatches, devices or layers"
    check_memory(counted(count, "event"), EVENT * count, remedy)
    network, order = network_of(inputs), choices.order.value
    table = pipelines.build(order, network.pipeline, network.microbatches)
    rows = np.stack([table.kind, table.microbatch], axis=-1).tolist()
    operations = program(network, rows, choices)
    found = events(operations, network, prices(inputs, choices), choices.sends is Sends.POSTED)
    degrees = f"{network.data} x {network.tensor} x {network.pipeline} (data x tensor x pipeline)"
    many = f"{network.microbatches} microbatch{'es' if network.microbatches > 1 else ''}"
    size = f"{len(network.widths) - 1}-layer MLP, {degrees}, {many}"
    return event_rows(found, title=f"{size}, {order}, {recipe.profile.value}", schedule=order)


def network_of(inputs: Inputs) -> Network:
    """Return the network and the split of some inputs as plain numbers."""
    plan, layers = inputs.plan, int(inputs.model.layers)
    assert plan is not None
    into, inner, hidden, out = map(float, widths(inputs.model))
    between = [hidden if layer % 2 else inner for layer in range(layers - 1)]
    degrees = (int(getattr(plan, name)) for name in Network._fields[2:])
    return Network((into, *between, out), float(inputs.global_batch), *degrees)


DETAILS = {
    "stages": Detail(stage_rows, (), check_plan, one_by_one=True),
    "events": Detail(event_list, (), check_plan, one_by_one=True),
}
