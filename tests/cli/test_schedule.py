"""Schedules of a transformer's pipeline: against the closed form, the papers, the laws and people.

One shape, 4 devices and 8 microbatches, serves nearly all tests: few programs are compiled.
"""

import dataclasses
import functools
import json
import pathlib

import jax
import numpy as np
import pytest
from refusals import refused
from schedule_figures import in_flight

import jaxroof as jr
from jaxroof import schedules
from jaxroof.estimators.pipelines import SCHEDULES
from jaxroof.estimators.published.details import (
    NOTHING,
    Extra,
    LayerCosts,
    Sends,
    closed_form,
    costs_under,
    scheduled_step,
    step_of,
)
from jaxroof.records import checked
from jaxroof.schedules import published
from jaxroof.views.text.schedule import gap

CHUNKS = {"interleaved": 2}
LAYERS, DEVICES, MICROBATCHES, REPLICAS = 96, 4, 8, 16
PLACED = {"fast_data": 1, "fast_tensor": 4, "fast_context": 1, "fast_pipeline": 1}
PLAN = {"data": REPLICAS, "tensor": 4, "pipeline": DEVICES, "microbatch": 1, **PLACED}
RATES = ("matrix_flops", "vector_flops", "hbm_bandwidth", "fast_bandwidth", "slow_bandwidth")
LATENCIES = ("launch_latency", "fast_latency", "slow_latency")


def inputs(microbatches: int = MICROBATCHES, **changed: float) -> jr.Inputs:
    """Return GPT-3 on H200 under a plan of four stages."""
    plan = jr.Plan(**{field: float(degree) for field, degree in {**PLAN, **changed}.items()})
    batch = microbatches * float(plan.data * plan.microbatch)
    known = {"model": jr.model("gpt3"), "system": jr.system("h200-nvs4")}
    return checked(jr.Inputs(**known, global_batch=batch, plan=plan))


def table(name: str, microbatches: int = MICROBATCHES) -> schedules.table.Schedule:
    return schedules.build(name, DEVICES, microbatches, CHUNKS.get(name, 1))


@functools.cache
def step(name: str, sends: Sends = Sends.OVERLAPPED, first: float = 0.0, last: float = 0.0):
    """Return the step of one schedule, as numpy."""
    extra = Extra(np.float64(first), np.float64(last))
    report, _ = scheduled_step(inputs(), jr.Recipe(), table(name), sends, extra)
    return jax.tree.map(np.asarray, report)


@functools.cache
def visits() -> tuple[float, float, float]:
    """Return the seconds of a layer's forward, input gradient and weight gradient."""
    costs = costs_under(inputs(), jr.Recipe(), 1.0, Sends.OVERLAPPED)
    layer, weight = costs.block, costs.weight_gradient
    backward = layer.work_backward + layer.links_backward
    return tuple(map(float, (layer.work_forward + layer.links_forward, backward - weight, weight)))


each = pytest.mark.parametrize("name", SCHEDULES)


# ---- The closed form, and the papers ------------------------------------------------------------

PLANS = [  # schedule, microbatches, what the plan has else
    ("1f1b", 8, {}),
    ("1f1b", 8, {"tensor": 2, "fast_tensor": 2, "fast_pipeline": 2, "microbatch": 4}),
    ("1f1b", 2, {"tensor": 8, "microbatch": 2, "data": 8}),
    ("gpipe", 8, {}),
    ("gpipe", 8, {"tensor": 8, "data": 1}),
]


@pytest.mark.parametrize(("name", "microbatches", "changed"), PLANS)
def test_equal_stages_and_free_sends_are_the_closed_form(name, microbatches, changed):
    asked = inputs(microbatches, **changed)
    report, _ = scheduled_step(asked, jr.Recipe(), table(name, microbatches), Sends.FREE)
    expected = float(closed_form(asked, jr.Recipe(), Sends.FREE))
    assert float(report.step_time) == pytest.approx(expected, rel=1e-12)


def test_time_and_memory_are_those_of_the_training_estimator():
    closed, ours = jr.tabulate(jr.published, inputs()), step("1f1b")
    asked = (inputs(), jr.Recipe())
    assert float(closed_form(*asked)) == pytest.approx(float(closed.step_time), rel=1e-12)
    sends = closed.time_pipeline * (1.0 + (DEVICES - 1.0) / MICROBATCHES)
    free = float(closed.step_time - sends)
    assert float(closed_form(*asked, Sends.FREE)) == pytest.approx(free, rel=1e-12)
    assert ours.memory.max() == pytest.approx(float(closed.memory), rel=1e-12)
    for part in ("weights", "gradients", "optimizer", "activations"):
        first, whole = (getattr(one, f"memory_{part}") for one in (ours, closed))
        assert first[0] == pytest.approx(float(whole), rel=1e-12)
    assert ours.data_time[0] == pytest.approx(float(closed.time_data), rel=1e-12)


@each
def test_a_device_idles_as_long_as_the_papers_say(name):
    forward, backward, weight = (24.0 * seconds for seconds in visits())
    if name not in ("zb-h1", "dualpipe"):
        backward, weight = backward + weight, 0.0
    costs = (forward, backward, weight, CHUNKS.get(name, 1))
    expected = published.bubble(name, DEVICES, MICROBATCHES, *costs)
    report = step(name, Sends.FREE)
    assert report.bubble_time.max() == pytest.approx(float(expected), rel=1e-9)


@each
def test_time_and_memory_are_the_sums_of_their_parts(name):
    report = step(name)
    parts = report.busy_time + report.bubble_time + report.data_time
    np.testing.assert_allclose(parts, report.step_time, rtol=1e-12)
    held = ("weights", "gradients", "optimizer", "activations")
    memory = sum(getattr(report, f"memory_{part}") for part in held)
    np.testing.assert_allclose(report.memory, memory, rtol=1e-12)
    work = sum(visits()) * LAYERS / DEVICES * MICROBATCHES
    np.testing.assert_allclose(report.busy_time, work, rtol=1e-12)


def test_a_weight_gradient_is_half_of_the_way_back_of_what_has_weights():
    fast = {"vector_flops": 1e29, "hbm_bandwidth": 1e29, "launch_latency": 0.0}  # products alone
    asked = on_system(fast)
    costs = costs_under(asked, jr.Recipe(), 1.0, Sends.FREE)
    tokens, hidden, wide = 2048.0, 12288.0, 4.0 * 12288.0
    shapes = [
        (hidden, wide / 4), (wide / 4, hidden), (hidden, 3 * hidden / 4), (hidden / 4, hidden),
    ]  # fmt: skip
    back = sum(tokens * i * (2 * o - 1) + i * o * (2 * tokens - 1) for i, o in shapes)
    rate = float(asked.system.matrix_efficiency * asked.system.matrix_flops)
    assert float(costs.weight_gradient) == pytest.approx(back / 2.0 / rate, rel=1e-9)


# ---- Sends, uneven stages, copies ---------------------------------------------------------------


def test_sends_take_time_and_the_more_where_a_device_waits_for_them():
    every = (Sends.FREE, Sends.OVERLAPPED, Sends.BLOCKING)
    free, overlapped, blocking = (float(step("1f1b", sends).step_time) for sends in every)
    assert free < overlapped < blocking


def test_a_send_is_as_fast_as_the_link_that_it_takes():
    asked = inputs(tensor=2, fast_tensor=2, fast_pipeline=2)
    _, (_, course) = scheduled_step(asked, jr.Recipe(), table("1f1b"), Sends.OVERLAPPED)
    start, end = np.asarray(course.start), np.asarray(course.end)
    first = [np.flatnonzero(table("1f1b").kind[:, device])[0] for device in range(DEVICES)]
    gaps = [start[first[d + 1], d + 1] - end[first[d], d] for d in range(DEVICES - 1)]
    message = 2.0 * 2048 * 12288 / 2.0  # bytes of what a tensor rank keeps of its input
    system = asked.system
    near = system.fast_latency + message / (system.fast_bandwidth * system.fast_efficiency)
    far = system.slow_latency + message / (system.slow_bandwidth * system.slow_efficiency)
    np.testing.assert_allclose(gaps, [near, far, near], rtol=1e-9)


def test_a_heavy_last_stage_sets_the_pace():
    last = 40.0
    report = step("1f1b", Sends.FREE, last=last)
    forward, *backward = (seconds * LAYERS / DEVICES for seconds in visits())
    slowest = sum(visits()) * (LAYERS / DEVICES + last) * MICROBATCHES
    filled, drained = ((DEVICES - 1) * time for time in (forward, sum(backward)))
    ends = (
        filled + slowest + drained + report.data_time[0],
        filled + slowest + report.data_time[-1],
    )
    assert float(report.step_time) == pytest.approx(max(ends), rel=1e-12)


@each
def test_what_the_ends_have_more_is_on_the_devices_that_hold_them(name):
    even, uneven = step(name), step(name, first=0.5, last=2.0)
    held = {0: 0.5, DEVICES - 1: 2.0}
    if name == "dualpipe":  # either route starts where the other ends
        held = dict.fromkeys(held, 2.5)
    more = np.zeros(DEVICES)
    more[list(held)] = list(held.values())
    copies = 2.0 if name == "dualpipe" else 1.0
    layer = even.memory_weights[0] / (copies * LAYERS / DEVICES)
    np.testing.assert_allclose(uneven.memory_weights - even.memory_weights, layer * more)
    np.testing.assert_allclose(uneven.memory_activations, even.memory_activations)
    assert float(uneven.step_time) > float(even.step_time)


def test_dualpipe_holds_weights_twice_and_shares_the_optimizer_among_the_copies():
    two, one = step("dualpipe"), step("1f1b")
    np.testing.assert_allclose(two.memory_weights, 2.0 * one.memory_weights)
    np.testing.assert_allclose(two.memory_gradients, 2.0 * one.memory_gradients)
    np.testing.assert_allclose(two.memory_optimizer, one.memory_optimizer)


# ---- Slopes -------------------------------------------------------------------------------------


def on_system(values: dict[str, float]) -> jr.Inputs:
    """Return the inputs on another machine."""
    asked = inputs()
    changed = {field: np.float64(value) for field, value in values.items()}
    return dataclasses.replace(asked, system=dataclasses.replace(asked.system, **changed))


@functools.cache
def pushed(routes: float) -> tuple[LayerCosts, dict[str, LayerCosts]]:
    """Return what a layer costs, and its slopes in every rate and latency times each of them."""
    system = inputs().system
    zeros = jax.tree.map(np.zeros_like, system)

    def costs(system):
        asked = dataclasses.replace(inputs(), system=system)
        return costs_under(asked, jr.Recipe(), routes, Sends.OVERLAPPED)

    fields = (*RATES, *LATENCIES)
    ways = [dataclasses.replace(zeros, **{field: getattr(system, field)}) for field in fields]
    ways = jax.tree.map(lambda *each: np.stack(each), *ways)
    slopes = jax.vmap(lambda way: jax.jvp(costs, (system,), (way,))[1])(ways)
    return costs(system), {
        field: jax.tree.map(lambda each, place=place: each[place], slopes)
        for place, field in enumerate(fields)
    }


@each
def test_slopes_of_the_step_time_are_its_differences_and_sum_to_minus_one(name):
    schedule, system = table(name), inputs().system
    costs, slopes = pushed(schedule.routes)

    @jax.jit
    def slope(tangent):
        def time(costs):
            return step_of(inputs(), jr.Recipe(), costs, schedule, False, NOTHING)[0].step_time

        return jax.jvp(time, (costs,), (tangent,))[1]

    base = float(step(name).step_time)
    elasticities = {field: float(slope(tangent)) / base for field, tangent in slopes.items()}
    for field, found in elasticities.items():
        times = [
            float(scheduled_step(on_system({field: value}), jr.Recipe(), schedule)[0].step_time)
            for value in (getattr(system, field) * (1.0 + h) for h in (1e-5, -1e-5))
        ]
        assert found == pytest.approx((times[0] - times[1]) / (2e-5 * base), abs=1e-7), field
    rates, latencies = (sum(elasticities[f] for f in some) for some in (RATES, LATENCIES))
    assert rates - latencies == pytest.approx(-1.0, abs=1e-12)


# ---- What Python says ---------------------------------------------------------------------------


def test_schedules_side_by_side_are_a_dataset():
    settings = {f"plan.{field}": degree for field, degree in PLAN.items()}
    settings |= {"model": "gpt3", "system": "h200-nvs4"}
    data = jr.schedule(settings, estimator="published", global_batch=float(REPLICAS * MICROBATCHES))
    assert dict(data.sizes) == {"schedule": 4, "device": DEVICES}
    assert data.allowed.all()
    assert data.memory_fits.all()
    for name in SCHEDULES:
        row, report = data.sel(schedule=name), step(name)
        assert float(row.step_time) == float(report.step_time)
        most = in_flight(name, DEVICES, MICROBATCHES, CHUNKS.get(name, 1))
        np.testing.assert_array_equal(row.in_flight, most)
    again = jr.schedule(inputs(), schedules="zb-h1")
    assert float(again.step_time[0]) == float(step("zb-h1").step_time)
    assert all(data[name].attrs["long_name"] for name in data.data_vars)


def test_what_a_schedule_does_not_allow_stays_with_its_reason(tmp_path):
    data = jr.schedule(inputs(2), schedules=["dualpipe", "1f1b"])
    assert data.feasible.values.tolist() == [False, True]
    assert np.isnan(data.step_time[0])
    assert np.isnan(data.memory[0]).all()
    assert (data.in_flight[0] == -1).all()
    assert "microbatches" in str(data.reason[0].values)
    for ending in ("nc", "json"):
        jr.write(data, tmp_path / f"s.{ending}")
        assert jr.read(tmp_path / f"s.{ending}").identical(data)


BAD = [  # arguments of jr.schedule, what it says
    ({"schedules": "zbh1"}, "schedules: zbh1: no such schedule. Did you mean 'zb-h1'?"),
    ({"schedules": []}, "schedules: expected at least one of gpipe"),
    ({"schedules": ["1f1b", "1f1b"]}, "schedules: 1f1b: given twice"),
    ({"chunks": 0}, "chunks: expected a whole number of at least 1, given 0"),
    ({"first": -0.1}, "first: expected layers' worth of at least 0, such as 0.8, given -0.1"),
    ({"last": float("nan")}, "last: not a finite number, given nan"),
    ({"sends": "blocked"}, "sends: blocked: no such kind of sends. Did you mean 'blocking'?"),
    ({"plan": None}, "plan: not given"),
    ({"tensor": 5.0}, "plan: tensor=5 is one of the tensor degrees that do not divide the heads"),
    ({"pipeline": 1.0}, "plan: pipeline: a schedule is of a pipeline; expected 2 stages or more"),
    ({"pipeline": np.array([2.0, 4.0])}, "plan.pipeline: expected one number, given 2 of them"),
    (
        {"schedules": "interleaved", "chunks": 5},
        "interleaved: 4 x 5 stages do not divide the 96 layers; expected chunks that divide 24",
    ),
]


@pytest.mark.parametrize(("changed", "said"), BAD)
def test_bad_input_is_named(changed, said):
    plan = {field: value for field, value in changed.items() if field in PLAN}
    rest = {field: value for field, value in changed.items() if field not in plan}
    asked = inputs()
    held = rest.pop("plan", dataclasses.replace(asked.plan, **plan))
    assert refused(jr.schedule, dataclasses.replace(asked, plan=held), **rest).startswith(said)


# ---- What people type ---------------------------------------------------------------------------

PUBLISHED = "schedule --estimator published --model gpt3 --system h200-nvs4"
COMMAND = f"{PUBLISHED} --plan dp=16,tp=4,pp=4,microbatch=1"
BATCH = f"--batch {REPLICAS * MICROBATCHES}"


def test_the_command_says_which_is_best_by_how_much_and_why(jaxroof):
    said = jaxroof(f"{COMMAND} {BATCH} -o s.json --trace t.json")
    assert said.code == 0
    assert said.words.startswith("gpt3 on h200-nvs4, dp 16 tp 4 pp 4 mb 1: 8 microbatches")
    data = jr.read("s.json")
    best, first = data.isel(schedule=int(data.step_time.argmin("schedule"))), data.isel(schedule=0)
    longer = float(first.step_time / best.step_time) - 1.0
    assert f"Best: {best.schedule.values}," in said.words
    assert f"1f1b takes {100 * longer:.3g} % longer, with" in said.words
    assert "of 141 GB" in said.words
    events = json.loads(pathlib.Path("t.json").read_text("utf-8"))["traceEvents"]
    assert len({e["tid"] for e in events if e["ph"] == "X"}) == DEVICES


def test_a_schedule_that_is_refused_is_told_with_its_reason(jaxroof):
    batch = f"--batch {2 * REPLICAS}"
    said = jaxroof(f"{COMMAND} {batch} --schedule dualpipe,1f1b --set system.hbm_capacity='9 GB'")
    assert said.code == 1
    assert "Refused: dualpipe: microbatches: expected an even number from 8" in said.words
    assert "No schedule fits: 1f1b needs least" in said.words
    alone = jaxroof(f"{COMMAND} {batch} --schedule dualpipe,interleaved")
    assert alone.code == 2
    assert alone.err.startswith("jaxroof: no schedule allows the plan: dualpipe: ")
    assert alone.err.count("\n") == 1


REFUSED = [  # options, the one line
    ("--schedule zbh1", "--schedule: zbh1: no such schedule. Did you mean 'zb-h1'?"),
    ("--schedule 1f1b --chunks 3", "--chunks: none of 1f1b has a choice of it; expected it with"),
    ("--schedule interleaved --chunks 5", "interleaved: 4 x 5 stages do not divide the 96 layers"),
    ("--first -1", "first: expected layers' worth of at least 0, such as 0.8, given '-1'"),
    ("--sends blocked", "--sends: blocked: no such kind of sends. Did you mean 'blocking'?"),
    ("--plan tp=4", "--plan: pp=1: a schedule is of a pipeline; expected pp=2 or more"),
    ("--plan tp=5,pp=4", "--plan: tp=5 is one of the tensor degrees that do not divide the heads"),
    ("--system tpu-v5e", "system.vector_flops, system.fast_bandwidth"),
    ("--trace t.txt", "t.txt: cannot tell the kind of file from '.txt'"),
]


@pytest.mark.parametrize(("options", "said"), REFUSED)
def test_what_cannot_be_used_is_refused_in_one_line(jaxroof, options, said):
    ended = jaxroof(f"{COMMAND} {BATCH} {options}")
    assert ended.code == 2
    assert ended.err.startswith(f"jaxroof: {said}")
    assert ended.err.count("\n") == 1
    assert ended.out == ""


def test_schedules_are_drawn():
    plots = pytest.importorskip("jaxroof.views.plots")
    figure = plots.draw(jr.schedule(inputs()))
    times, memory = figure.axes
    names = [label.get_text() for label in times.get_yticklabels()]
    assert names == sorted(SCHEDULES, key=lambda name: float(step(name).step_time))
    needs = [f"{float(step(name).memory.max()) / 1e9:.3g}" for name in names]
    assert [text.get_text() for text in memory.texts] == needs


def test_no_schedule_is_best_where_none_fits(jaxroof):
    said = jaxroof(
        "schedule --model llama3-8b --system h100-nvs8 --plan dp=2,pp=2,zero=1,rc=0,mb=4 --batch 64"
    )
    assert said.code == 1
    assert "No schedule fits" in said.words
    assert "best" not in said.words.replace("best fit", "").partition("step")[2].lower()


def test_a_schedule_as_fast_as_the_best_that_does_not_fit_is_not_called_best():
    assert gap(40.0, 40.0, False) == "+0 %"


def test_idle_is_tied_to_the_bubble_of_a_search(jaxroof):
    said = jaxroof(
        "schedule --model llama3-8b --system h100-nvs8 --batch 64 --plan tp=4,pp=2,zero=1,rc=0,mb=1"
    )
    assert "the pipeline bubble and uneven stages" in said.words
