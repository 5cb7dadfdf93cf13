"""Stages of a training step under schedules: the closed form, the papers, sums, memory."""

import dataclasses
import functools

import numpy as np
import pytest

from jaxroof import schedules
from jaxroof.catalog.lookup import architecture_with_choices, training_system
from jaxroof.estimators.training.details import (
    MEMORY,
    on_schedule,
    own_sends,
    scheduled_step,
    stage_seconds,
)
from jaxroof.estimators.training.inputs import TrainingInputs, TrainingPlan
from jaxroof.estimators.training.recipe import Schedule, TrainingRecipe
from jaxroof.estimators.training.step import training
from jaxroof.estimators.training.step_time import late, plan_time, timed
from jaxroof.records import with_named_absences
from jaxroof.schedules import published
from jaxroof.schedules.clock import Sends, layout_of, stage_visits
from jaxroof.settings import choose

CHUNKS = {"interleaved": 2}
LLAMA = ("llama3-70b", "h100-nvs8", {"tensor": 8.0})
DEEPSEEK = ("deepseek-v3", "gb200-nvl72", {"data": 4.0, "expert": 4.0})  # whose stages are equal
THREE = 3.0 ** (1.0 / 16.0)  # by which a smooth maximum of three exceeds the largest, at most
each = pytest.mark.parametrize("name", MEMORY)


@functools.cache
def asked(which: int = 0, pipeline: float = 4.0, microbatches: float = 16.0):
    """Return the inputs and the recipe of a plan."""
    name, machine, degrees = (LLAMA, DEEPSEEK)[which]
    model, choices = architecture_with_choices(name)
    plan = TrainingPlan(pipeline=pipeline, **degrees)
    batch = microbatches * plan.data
    system = training_system(machine)
    inputs = TrainingInputs(model=model, system=system, global_batch=batch, plan=plan)
    return with_named_absences(inputs), choose(TrainingRecipe(), choices)


@functools.cache
def step(name: str, sends: Sends | None = None, **which: float):
    """Return the step under one schedule."""
    inputs, recipe = on_schedule(*asked(**which), name, CHUNKS.get(name, 1))
    made = table(name, inputs)
    return scheduled_step(inputs, recipe, made, sends)


def table(name: str, inputs):
    plan = inputs.plan
    microbatches = int(inputs.global_batch / plan.data)
    return schedules.build(name, int(plan.pipeline), microbatches, CHUNKS.get(name, 1))


def clocked(name: str, sends: Sends | None = None, **sizes: float):
    """Return the step of a plan, the seconds of its stages, and how long their visits take."""
    inputs, recipe = on_schedule(*asked(**sizes), name, CHUNKS.get(name, 1))
    made, given = table(name, inputs), timed(inputs, recipe)
    closed = plan_time(inputs, recipe)
    each = stage_seconds(given, closed, layout_of(made))
    if sends is Sends.FREE:
        each = each._replace(send=0.0 * each.send)
    blocking = (sends or own_sends(inputs, made)) is Sends.BLOCKING
    return closed, each, stage_visits(made, each, blocking).times


@each
@pytest.mark.parametrize("which", [0, 1])
@pytest.mark.parametrize(("pipeline", "microbatches"), [(2.0, 8.0), (4.0, 8.0), (8.0, 32.0)])
def test_the_step_of_a_search_is_that_of_its_schedule(name, which, pipeline, microbatches):
    """Whatever the schedule; its visits are as long as the clocks of its stages say, nearly."""
    sizes = {"which": which, "pipeline": pipeline, "microbatches": microbatches}
    inputs, recipe = on_schedule(*asked(**sizes), name, CHUNKS.get(name, 1))
    expected = float(training.evaluate(inputs, recipe).step_time)
    found = step(name, **sizes)
    assert float(found.report.step_time) == pytest.approx(expected, rel=1e-12)
    closed, _, times = clocked(name, **sizes)
    stages = closed.stages
    pace = float(stages.steady + stages.bubble + stages.sends) / float(times.clock.max())
    speed, plan = timed(inputs, recipe).rates, inputs.plan
    chips = plan.data * plan.tensor
    later = late(chips * max(pipeline - 2.0, 1.0), speed.spread) / late(chips, speed.spread)
    least = 1.0 if name in ("1f1b", "interleaved", "gpipe") else 0.99
    assert least <= pace <= THREE * float(later)


def test_a_better_schedule_takes_less_time_in_a_search():
    times = {
        name: float(training.evaluate(*on_schedule(*asked(), name, 1)).step_time)
        for name in ("gpipe", "1f1b", "zb-h1", "dualpipe")
    }
    assert times["gpipe"] == times["1f1b"] > times["zb-h1"] > times["dualpipe"]


@each
def test_a_device_of_equal_stages_idles_as_long_as_the_papers_say(name):
    inputs, _ = on_schedule(*asked(which=1), name, CHUNKS.get(name, 1))
    _, seconds, times = clocked(name, Sends.FREE, which=1)
    chunks = CHUNKS.get(name, 1)
    np.testing.assert_allclose(seconds.forward, seconds.forward[0], rtol=1e-12)
    forward = chunks * float(seconds.forward[0])
    kinds = (seconds.input_gradient, seconds.weight_gradient)
    backward, weight = (chunks * float(kind[0]) for kind in kinds)
    if name not in ("zb-h1", "dualpipe"):
        backward, weight = backward + weight, 0.0
    sizes = (inputs.plan.pipeline, inputs.global_batch / inputs.plan.data)
    costs = (forward, backward, weight, chunks)
    expected = published.bubble(name, *sizes, *costs)
    assert float(np.max(times.clock.max() - times.busy)) == pytest.approx(float(expected), rel=1e-9)


@pytest.mark.parametrize("schedule", list(Schedule))
def test_several_chunks_belong_to_1f1b_alone(schedule):
    inputs, recipe = on_schedule(*asked(), "interleaved", 2)
    found = training.evaluate(inputs, dataclasses.replace(recipe, schedule=schedule))
    assert bool(found.interleave_microbatches) == (schedule is Schedule.ONE_F_ONE_B)


@each
@pytest.mark.parametrize("which", [0, 1])
def test_times_and_memory_sum_to_the_whole(name, which):
    found = step(name, which=which)
    report = found.report
    parts = report.busy_time + report.bubble_time + report.data_time + report.update_time
    np.testing.assert_allclose(parts, report.step_time, rtol=1e-12)
    memory = sum(value for key, value in found.memory.items() if key != "memory")
    np.testing.assert_allclose(memory, found.memory["memory"], rtol=1e-12)


@each
def test_the_fullest_device_is_that_of_the_estimator(name):
    inputs, recipe = on_schedule(*asked(), name, CHUNKS.get(name, 1))
    expected = float(training.evaluate(inputs, recipe).memory)
    assert float(step(name).memory["memory"].max()) == pytest.approx(expected, rel=1e-12)


def test_all_schedules_do_the_same_work():
    work = {name: float(np.sum(clocked(name, Sends.FREE)[2].busy)) for name in MEMORY}
    np.testing.assert_allclose(list(work.values()), work["1f1b"], rtol=1e-12)


def test_sends_take_time_and_the_more_where_a_device_waits_for_them():
    every = (Sends.FREE, Sends.OVERLAPPED, Sends.BLOCKING)
    free, overlapped, blocking = (float(step("1f1b", one).report.step_time) for one in every)
    assert free < overlapped < blocking
    assert float(step("1f1b").report.step_time) == blocking
    hidden = float(step("interleaved", Sends.OVERLAPPED).report.step_time)
    assert float(step("interleaved").report.step_time) == hidden
