"""An MLP's training step under D x H x P ranks: when each stage is done, and what it holds.

Source: docs/models/distir_model.md, sections 6 to 9.
"""

import dataclasses
from typing import Any, NamedTuple

import jax.numpy as jnp

from jaxroof.catalog import lookup as named
from jaxroof.errors import refusal
from jaxroof.estimator import Estimator, ProgramSizes, details_in
from jaxroof.estimators.legality import verdicts
from jaxroof.estimators.mlp_pipeline.chain import (
    SYNCHRONISED,
    VISITS,
    clocks,
    in_flight,
    lifted,
    peaks,
)
from jaxroof.estimators.mlp_pipeline.costs import Stages, counts, handout, prices, stages
from jaxroof.estimators.mlp_pipeline.inputs import Inputs, Plan, Report
from jaxroof.estimators.mlp_pipeline.layers import Layers, layers
from jaxroof.estimators.mlp_pipeline.plans import RULES, VERDICTS, plans, sizes, tried
from jaxroof.estimators.mlp_pipeline.recipe import Choices, Recipe, Sends
from jaxroof.estimators.mlp_pipeline.recipe import Handout as HandoutChoice
from jaxroof.estimators.questions import QUESTIONS
from jaxroof.formulas.arithmetic import larger, largest
from jaxroof.records import Number


def step(inputs: Inputs, recipe: Recipe) -> Report:
    """Return time, memory and verdicts of one step.

    t = max over stages of (its clock after all visits + sums over replicas + update)

    Assumes: replicas and ranks of a stage run alike.
    """
    choices = recipe.chosen()
    plan = inputs.plan
    assert plan is not None
    run = simulated(inputs, recipe)
    step_time, busy, memory = run.step_time, run.busy, largest(run.memory)
    communication, total = (
        plan.data * plan.tensor * jnp.sum(part, axis=0) for part in spent(run.plan, run.costs)
    )
    operations, events = counts(inputs, choices)
    timesteps = 2.0 * (plan.microbatches + plan.pipeline - 1.0) * TABLED[choices.sends]
    holds = (plan.pipeline <= recipe.most_stages) & (timesteps <= recipe.most_timesteps)
    more = {"program_holds": holds, "memory_fits": memory <= memory_limit(inputs)}
    mean = jnp.sum(busy, axis=0) / plan.pipeline
    return Report(
        step_time=step_time,
        throughput=inputs.global_batch / step_time,
        memory=memory,
        communication_overhead=communication / total,
        communication_time=communication,
        total_time=total,
        idle_share=1.0 - mean,
        busy_least=-largest(-jnp.where(run.held.there, busy, 1.0)),
        busy_most=largest(busy),
        in_flight=in_flight(run.plan, choices),
        operations=operations,
        events=events,
        **verdicts(VERDICTS, RULES[choices.rules], inputs, **more),
    )


class Simulated(NamedTuple):
    """A step stage by stage, [stages, ..] each but the step's own time."""

    inputs: Inputs  # with a dimension for stages in front
    plan: Plan  # theirs
    held: Layers
    costs: Stages
    done: Any  # [s] when a stage has done its visits
    step_time: Any  # [s]
    busy: Any  # share of the step that one rank is busy
    memory: Any  # [B] that one rank holds at most


def simulated(inputs: Inputs, recipe: Recipe) -> Simulated:
    """Return what every stage does in one step, and when all have done it."""
    choices, wide = recipe.chosen(), lifted(inputs)
    plan: Plan = wide.plan
    held = layers(wide, recipe.most_stages)
    asked = prices(wide, choices)
    costs = stages(asked, choices, plan, held)
    given = HANDOUTS[choices.handout](wide, asked, held, costs)
    done = clocks(plan, recipe, choices, costs, given)
    tail = costs.exposed + costs.gathers + costs.optimizer
    step_time = largest(jnp.where(held.there, done + tail, 0.0))
    return Simulated(
        inputs=wide,
        plan=plan,
        held=held,
        costs=costs,
        done=done,
        step_time=step_time,
        busy=stage_busy(plan, costs, SENDS_KEEP[choices.sends]) / step_time[None],
        memory=stage_memory(wide, recipe, choices, held),
    )


def stage_memory(inputs: Inputs, recipe: Recipe, choices: Choices, held: Layers) -> Any:
    """Return the most bytes that one rank of every stage holds at once, [stages, ..]."""
    if choices.memory not in VISITS:
        return jnp.zeros_like(held.low)
    assert inputs.plan is not None
    most, live = peaks(inputs.plan, recipe, choices, VISITS[choices.memory](inputs, held))
    most = larger(most, live + SYNCHRONISED[choices.memory](inputs, held))
    return jnp.where(held.there, most, 0.0)


def spent(plan: Plan, costs: Stages) -> tuple[Any, Any]:
    """Return the seconds of communication, and of everything, of one rank of every stage.

    A message counts at both its ends.
    """
    sends = 4.0 * plan.microbatches * costs.send
    moved = plan.microbatches * costs.tensor + costs.sync + costs.gathers + sends
    once = costs.again + costs.joined_forward + costs.joined_backward
    work = plan.microbatches * (costs.forward + costs.backward) + (plan.microbatches - 1.0) * once
    return moved, work + costs.sync + costs.gathers + costs.optimizer + sends


def stage_busy(plan: Plan, costs: Stages, keeps: float) -> Any:
    """Return the seconds that one rank of every stage is busy; ``keeps``: sends are part of it."""
    _, total = spent(plan, costs)
    none = jnp.zeros_like(costs.send[:1])
    ends = costs.send + jnp.concatenate([none, costs.send[:-1]])
    alone = total - 4.0 * plan.microbatches * costs.send - costs.sync + costs.exposed
    return alone + keeps * 2.0 * plan.microbatches * ends


def memory_limit(inputs: Inputs) -> Number:
    """Return the memory that a step may fill [B]."""
    return inputs.system.hbm_capacity * inputs.system.hbm_usable


def fitted(recipe: Recipe, most: Any) -> Recipe:
    """Return the recipe of a program that holds the stages and timesteps given.

    >>> fitted(Recipe(), (6.0, 40.0)).most_stages
    8
    """
    for (path, what, bound), size in zip(BOUNDS, most, strict=True):
        if size > bound:
            raise refusal(path, f"expected at most {bound:,} {what}, given {size:,.0f}")
    needed, timesteps = (1 << (int(size) - 1).bit_length() for size in most)
    needed = max(needed, LEAST)
    if not TABLED[recipe.chosen().sends]:
        return dataclasses.replace(recipe, most_stages=needed)
    rows = next(rows for rows in ROOMS if rows >= timesteps)
    return dataclasses.replace(recipe, most_stages=needed, most_timesteps=rows)


def exact(recipe: Recipe, most: Any) -> Recipe:
    """Return the recipe that runs as many timesteps as are needed, known beforehand."""
    return dataclasses.replace(recipe, timesteps=int(most[1]))


def batch(recipe: Recipe) -> int:
    """Return how many points one call of a recipe's program takes."""
    cells = recipe.most_stages * (
        recipe.most_timesteps if TABLED[recipe.chosen().sends] else recipe.most_stages
    )
    return max(1, min(POINTS, CELLS // cells))


BOUNDS = (  # of what can be followed step by step
    ("plan.pipeline", "stages", 1 << 14),
    ("plan.microbatches", "timesteps, 2 (microbatches + stages - 1)", 1 << 22),
)
POINTS, CELLS = 1024, 1 << 24  # of a call; of stages x timesteps x points that it keeps
LEAST = 4  # stages: fewer cost as much, and a program more
ROOMS = tuple(4**power for power in range(3, 30))  # of timesteps: few sizes, few programs
HANDOUTS: dict[HandoutChoice, Any] = {
    HandoutChoice.DONE: lambda *_: None,
    HandoutChoice.COLD: handout,
}
SENDS_KEEP = {Sends.RENDEZVOUS: 1.0, Sends.POSTED: 0.0}
TABLED = {Sends.RENDEZVOUS: 0.0, Sends.POSTED: 1.0}  # whether timesteps need room


def example() -> Inputs:
    """Return the published study: 64 layers of width 8192 on 16 devices."""
    return Inputs(
        model=named.mlp("mlp-study"),
        system=named.system("h200-nvs8", network_bandwidth="25 GB/s"),
        gpus=16.0,
        plan=Plan(data=2.0, tensor=2.0, pipeline=4.0, microbatches=8.0),
    )


pipeline = Estimator(
    name="pipeline",
    about=QUESTIONS["pipeline"],
    inputs=Inputs,
    plan=Plan,
    recipe=Recipe(),
    step=step,
    candidates=plans,
    tried=tried,
    structural=("gpus", "global_batch", "model"),
    objective="step_time",
    need="memory",
    limit=memory_limit,
    products={"gpus": ("data", "tensor", "pipeline")},
    names={"model": named.mlp, "system": named.labelled_system},
    sizing=ProgramSizes(sizes, fitted, exact, batch),
    example=example,
    details=details_in("jaxroof.estimators.mlp_pipeline.details"),
)
