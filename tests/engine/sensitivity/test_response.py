"""How the best over all plans answers to a parameter: every switch of plans, and capacity's steps.

Checked against the exact envelope of lines, found by brute force, against searches on dense grids
and against every plan at every point.
"""

import dataclasses
import json

import jax.numpy as jnp
import numpy as np
import pytest
from refusals import refused

import jaxroof as jr
from jaxroof.engine.grid.evaluate import evaluate_points
from jaxroof.engine.sensitivity import switches
from jaxroof.errors import InputError
from jaxroof.estimator import Candidates
from jaxroof.estimators.mlp_pipeline.step import pipeline
from jaxroof.records import get_at
from tests.helpers import pools

TIE = 1e-12
FIELDS = ["data", "tensor", "context", "pipeline", "microbatch", "panels"]
FIELDS += ["fast_data", "fast_tensor", "fast_context", "fast_pipeline"]

# ---- Plans whose costs are known lines ----------------------------------------------------------


@jr.record
class Bent:
    """A plan whose time is the larger of two lines, and what it needs."""

    fixed: float = jr.quantity("1", "First line at 0.", whole=True, zero=True)
    slope: float = jr.quantity("1", "Its slope.", whole=True, zero=True)
    other: float = jr.quantity("1", "Second line at 0.", whole=True, zero=True)
    steep: float = jr.quantity("1", "Its slope.", whole=True, zero=True)
    need: float = jr.quantity("1", "What it needs.", whole=True, zero=True)


@jr.record
class Bench:
    """Inputs: a rate, a latency, and a capacity."""

    seed: float = jr.quantity("1", "Which plans there are.", whole=True, zero=True)
    rate: float = jr.quantity("1/s", "Time goes with its reciprocal.", default=1.0)
    latency: float = jr.quantity("s", "Time goes with it.", default=1.0)
    capacity: float = jr.quantity("B", "What plans may need.", default=100.0)
    plan: Bent | None = None


@jr.record
class Took:
    """Results."""

    time: float = jr.quantity("s", "Time.")
    speed: float = jr.quantity("1/s", "Its reciprocal.", better="higher")
    spare: float = jr.quantity("s", "What is left of ten seconds: no convex function.")
    room: float = jr.quantity("B", "What it needs.")
    fits: bool = jr.quantity("1", "Whether it fits.")


def take(inputs, recipe):
    plan = inputs.plan
    x = inputs.latency / inputs.rate
    time = jnp.maximum(plan.fixed + plan.slope * x, plan.other + plan.steep * x)
    return Took(
        time=time,
        speed=1.0 / time,
        spare=jnp.maximum(10.0 - time, 0.0),
        room=plan.need,
        fits=plan.need <= inputs.capacity,
    )


TABLES: dict[int, np.ndarray] = {}  # by seed: rows of fixed, slope, other, steep, need


def listed(inputs, recipe):
    rows = TABLES[int(inputs.seed)]
    return Candidates({name: rows[:, i] for i, name in enumerate(NAMES)}, {})


lines = jr.Estimator(
    name="lines",
    step=take,
    inputs=Bench,
    plan=Bent,
    candidates=listed,
    structural=("seed",),
    objective="time",
    need="room",
    limit=lambda inputs: inputs.capacity,
)


def asked(rows, **fields):
    """Return the inputs of a table of plans."""
    rows = np.asarray(rows, np.int64)
    seed = next((s for s, held in TABLES.items() if np.array_equal(held, rows)), len(TABLES))
    TABLES[seed] = rows
    return Bench(seed=float(seed), **fields)


def straight(*pairs, need=1):
    return [(fixed, slope, fixed, slope, need) for fixed, slope in pairs]


def reigns(rows, low, high):
    """Return every plan that reigns and from where, by brute force over all crossings."""
    rows = np.array(sorted(map(tuple, rows), key=lambda row: (row[4], row)), float)
    straight = np.concatenate([rows[:, :2], rows[:, 2:4]])
    fixed, slope = straight.T
    with np.errstate(divide="ignore", invalid="ignore"):
        meet = (fixed[:, None] - fixed) / (slope - slope[:, None])
    inside = np.unique(meet[np.isfinite(meet) & (meet > low) & (meet < high)])
    ends = np.concatenate([[low], inside, [high]])
    ends = ends[np.append(True, np.diff(ends) > 1e-12 * ends[1:])]
    middle = (ends[1:] + ends[:-1]) / 2
    time = np.maximum(rows[:, :1] + rows[:, 1:2] * middle, rows[:, 2:3] + rows[:, 3:4] * middle)
    least = time.min(axis=0)
    first = np.argmax(time <= least * (1 + TIE), axis=0)
    change = np.append(True, np.diff(first) != 0)
    return ends[:-1][change], rows[first[change]].astype(int)


def of(data, path):
    return data.isel(switch=np.flatnonzero(data.switch_parameter.values == path))


def plans_of(data, fields):
    return np.stack([data[f"switch_{field}"].values for field in fields], axis=-1)


NAMES = ("fixed", "slope", "other", "steep", "need")


def agrees(data, path, way, rows, span=16.0):
    """Check the switches of a parameter against the brute force; return how many there are."""
    start, plans = reigns(rows, 1 / span, span)
    stop = np.append(start[1:], span)
    some = of(data, path)
    today = list(json.loads(data.attrs["plan"]).values())
    dearer = (some.switch_factor.values > 1) == (way > 0)
    for side, order, first, last in (
        (dearer, np.flatnonzero(stop > 1 + 1e-12), start, stop),
        (~dearer, np.flatnonzero(start < 1 - 1e-12)[::-1], stop, start),
    ):
        # today's plan may win at its own value alone, by a tie
        order = order[1:] if plans[order[0]].tolist() == today else order
        at = first[order]
        at = np.where(
            order == order[:1], np.clip(at, *((1, span) if side is dearer else (0, 1))), at
        )
        found = some.isel(switch=np.flatnonzero(side))
        assert np.allclose(found.switch_factor.values**way, at, rtol=1e-11, atol=0)
        assert np.allclose(found.switch_until.values**way, last[order], rtol=1e-11, atol=0)
        assert np.array_equal(plans_of(found, NAMES), plans[order])
        assert found.switch_order.values.tolist() == list(range(1, len(order) + 1))
    return len(some.switch)


@pytest.mark.parametrize("seed", range(40))
def test_switches_are_those_of_the_exact_envelope_of_bent_lines(seed):
    random = np.random.default_rng(seed)
    most = (4, 12, 60, 1000)[seed % 4]
    rows = random.integers(0, most, (40, 5)) + np.array([1, 0, 1, 0, 0])
    rows[:, 4] %= 3
    data = jr.response(lines, asked(rows))
    assert agrees(data, "latency", 1, rows) >= 0
    assert agrees(data, "rate", -1, rows) >= 0


UNIT, AT = 10_000, 1.3
THIN = straight((0, 3 * UNIT), (int(AT * UNIT), 2 * UNIT), (int(2.001 * AT * UNIT), UNIT))


def test_a_reign_a_thousandth_wide_between_two_lanes_is_found():
    data = of(jr.response(lines, asked(THIN)), "latency")
    assert data.switch_factor.values == pytest.approx([AT, 1.001 * AT], rel=1e-12)
    assert data.switch_until.values == pytest.approx([1.001 * AT, 16.0], rel=1e-12)
    assert data.switch_slope.values.tolist() == [2 * UNIT, UNIT]


def test_where_more_is_better_the_switches_are_those_of_its_reciprocal():
    rows = straight(*((3 * k * k + 1, (9 - k) ** 2) for k in range(10)))
    slow, fast = (jr.response(lines, asked(rows), objective=name) for name in ("time", "speed"))
    for name in ("switch_parameter", "switch_slope", "switch_steep", "switch_order"):
        assert np.array_equal(slow[name], fast[name])
    for name in ("switch_factor", "switch_until", "switch_gain"):
        assert np.allclose(slow[name], fast[name], rtol=1e-12, atol=1e-15), name
    for kept in ("", "_kept"):
        assert np.allclose(slow[f"time{kept}"] * fast[f"speed{kept}"], 1.0, rtol=1e-14)
    assert np.allclose(slow.switch_time * fast.switch_speed, 1.0, rtol=1e-14)
    assert len(slow.switch) > 4


@pytest.mark.parametrize(
    "rows",
    [
        straight((3, 2)),
        straight((3, 2), (3, 2), (4, 2), (3, 3)),  # twins; no better anywhere
        [*straight((2, 3), (1, 5)), (2, 3, 1, 1, 5)],  # the last ties with the first everywhere
    ],
)
def test_plans_that_tie_all_along_are_no_switch(rows):
    data = jr.response(lines, asked(rows), span=4.0)
    assert len(of(data, "rate").switch) == (1 if len(rows) == 3 else 0) == len(data.switch) / 2


def test_a_leaner_plan_takes_over_where_it_ties_and_gains_nothing():
    """As in a search: from the bend on both cost the same, and one of them needs less."""
    rows = [(1, 2, 1, 2, 9), (5, 0, 1, 2, 1)]
    data = of(jr.response(lines, asked(rows)), "latency")
    assert data.switch_factor.values == pytest.approx([2.0], rel=1e-12)
    assert data.switch_need.values.tolist() == [1]
    assert data.switch_gain.values == pytest.approx([0.0], abs=1e-15)


def test_a_switch_at_today_s_value_lies_beside_it():
    data = jr.response(lines, asked(straight((1, 2), (2, 1))))
    for path, ways in (("latency", "up"), ("rate", "down")):
        (factor,) = of(data, path).switch_factor.values
        assert factor == pytest.approx(1.0, abs=1e-15)
        assert (factor > 1.0) == (ways == "up")


def test_a_plan_that_ties_at_today_s_value_alone_is_left_on_both_sides():
    data = of(jr.response(lines, asked([(3, 0, 1, 2, 0), (2, 1, 2, 1, 1)])), "latency")
    assert json.loads(data.attrs["plan"])["need"] == 0
    assert data.switch_factor.values == pytest.approx([1.0, 1.0], abs=1e-15)
    assert sorted(np.sign(data.switch_factor.values - 1)) == [-1, 1]
    assert data.switch_need.values.tolist() == [1, 1]


def one_accelerator() -> jr.TrainingInputs:
    """Return GPT-2 on one H100: a curved cost, and four ZeRO stages of every plan."""
    return jr.TrainingInputs(
        model=jr.architecture("gpt2-124m"),
        system=jr.training_system("h100-nvs8"),
        gpus=1.0,
        global_batch=8.0,
    )


@pytest.fixture
def open_cells(monkeypatch):
    """Return a list that gets the number of cells of each round."""
    seen, settled = [], switches._settled

    def counted(pairs):
        found = settled(pairs)
        seen.append(len(found[1].first()))
        assert seen[-1] < 4096
        return found

    monkeypatch.setattr(switches, "_settled", counted)
    return seen


@pytest.mark.parametrize("named", [True, False])
def test_equal_plans_of_a_curved_cost_are_one_plan(named, open_cells):
    """Whether the estimator says that they are or not; each would double the cells of a round."""
    estimator = jr.training if named else dataclasses.replace(jr.training, alike=None)
    data = jr.response(estimator, one_accelerator())
    assert data.attrs["switches"] == "exact"
    assert (data.attrs["switches_open"], data.sizes["switch"]) == (0, 0)
    assert sum(open_cells) <= (64 if named else 1024)
    assert json.loads(data.attrs["plan"])["zero_stage"] == 0


@pytest.mark.parametrize(("bound", "unseen"), [("ROUNDS", 0), ("CELLS", 2)])
def test_rounds_and_cells_are_bounded_and_what_is_left_open_is_counted(bound, unseen, monkeypatch):
    """What wins at the ends of an open cell is exact; what wins inside alone is not seen."""
    question = asked(THIN)
    whole = jr.response(lines, question)
    monkeypatch.setattr(switches, bound, 1)
    data = jr.response(lines, question)
    assert data.attrs["switches_open"] > 0 == whole.attrs["switches_open"]
    assert data.sizes["switch"] == whole.sizes["switch"] - unseen
    for field in ("time", "slope"):
        np.testing.assert_array_equal(data[field], whole[field])


def test_the_grid_holds_the_best_plan_and_today_s():
    rows = straight((1, 4), (3, 1))
    data = jr.response(lines, asked(rows), span=8.0).sel(parameter="latency")
    x = data.factor.values
    assert x[0] == 1 / 8
    assert x[-1] == 8.0
    assert 1.0 in x
    assert np.allclose(np.log(x[1:] / x[:-1]), np.log(x[1] / x[0]))
    assert np.allclose(data.time, np.minimum(1 + 4 * x, 3 + x), rtol=1e-15)
    assert np.allclose(data.time_kept, 3 + x, rtol=1e-15)
    assert np.array_equal(data.slope, np.where(x < 2 / 3, 4, 1))
    assert json.loads(data.attrs["plan"]) == {
        "fixed": 3,
        "slope": 1,
        "other": 3,
        "steep": 1,
        "need": 1,
    }
    (gain,) = data.switch_gain.values[data.switch_parameter == "latency"]
    assert gain == pytest.approx(1 - (1 + 4 / 8) / (3 + 1 / 8))


def test_only_plans_that_fit_and_are_asked_for_take_part():
    rows = straight((1, 4), (3, 1)) + straight((0, 1), need=101) + straight((1, 1), need=50)
    data = jr.response(lines, asked(rows), where="need<50")
    assert set(data.switch_fixed.values.tolist()) == {1}
    assert len(jr.response(lines, asked(rows)).switch) == 0
    assert set(data.parameter.values) == {"rate", "latency"}


def test_where_nothing_fits_there_is_nothing_to_switch():
    data = jr.response(lines, asked(straight((1, 4), need=101)))
    assert data.sizes == {"parameter": 2, "factor": 33, "switch": 0}
    assert np.all(np.isnan(data.time))
    assert np.all(np.isnan(data.time_kept))
    assert np.all(data.slope == -1)
    assert json.loads(data.attrs["plan"]) is None
    assert data.switch_parameter.dtype.kind == "U"


def test_where_a_result_is_not_convex_every_sampled_value_is_exact():
    """What is left of ten seconds falls, then rests at 0: no convex function of the latency."""
    rows = straight((1, 4), (3, 2), (6, 1))
    data = jr.response(lines, asked(rows), objective="spare", span=8.0, parameters=["latency"])
    assert data.attrs["switches"] == "sampled"
    times = np.array(
        [[fixed + slope * data.factor.values] for fixed, slope in [(1, 4), (3, 2), (6, 1)]]
    )
    left = np.maximum(10.0 - times[:, 0], 0.0)
    np.testing.assert_allclose(data.spare.sel(parameter="latency"), left.min(axis=0), atol=1e-12)
    # the slowest plan has least left: 6 + x until 1 + 4 x is slower
    assert np.abs(data.switch_factor.values - 5.0 / 3.0).min() < 1e-9
    plain = jr.response(lines, asked(rows), span=8.0, parameters=["latency"])
    assert plain.attrs["switches"] == "exact"


@pytest.mark.parametrize(("options", "text"), [
    ({"parameters": ["latncy"]}, "latncy: no such parameter of lines. Did you mean 'latency'?"),
    ({"parameters": ["capacity"]}, "parameters: none of capacity moves time"),
    ({"parameters": []}, "parameters: none given"),
    ({"span": 1.0}, "span: expected a factor above 1 and at most 1e6, given 1.0"),
    ({"span": float("nan")}, "span: expected a factor above 1 and at most 1e6, given nan"),
    ({"objective": "tme"}, "objective: tme: no such result. Did you mean 'time'?"),
])  # fmt: skip
def test_bad_questions_are_told_in_one_line(options, text):
    assert refused(jr.response, lines, asked(straight((1, 1))), **options).startswith(text)


def test_a_plan_without_a_cost_is_told_in_one_line():
    with pytest.raises(InputError, match="speed: not finite, or none, for a plan that fits"):
        jr.response(lines, asked(straight((1, 1), (0, 0))), objective="speed")


def test_plans_that_are_programs_of_their_own_are_refused():
    with pytest.raises(InputError, match="its plans are programs of their own"):
        jr.response(pipeline, pipeline.example())


@pytest.mark.parametrize("bounds", [(0.2, 0.02), (0.3, 0.004), (1e9, 0.009), (1e-9, 1.0)])
def test_several_limits_hold_wherever_a_parameter_is_moved(bounds):
    """The best at each factor is that of a search there; beside a switch it is the plan named."""
    given = dict(zip(("limits.first", "limits.each"), bounds, strict=True))
    question = dataclasses.replace(pools.example(), plan=None)
    data = jr.response(pools.estimator, question, span=4.0, settings=given)
    fields, switched = pools.estimator.plan_fields, 0
    for path in map(str, data.parameter.values):
        values, some = float(get_at(question, path)) * data.factor.values, of(data, path)
        best = jr.search(pools.estimator, question, axes={path: values}, settings=given)
        np.testing.assert_allclose(data.cost.sel(parameter=path), best.cost, rtol=1e-12)
        for field in fields:
            np.testing.assert_array_equal(data[field].sel(parameter=path), best[field])
        plan = pools.Plan(**{f: some[f"switch_{f}"].values.astype(float) for f in fields})
        beyond = np.where(some.switch_factor > 1.0, 1.0 + 1e-9, 1.0 - 1e-9)
        there = jr.replace_at(question, path, some.switch_value.values * beyond)
        report = pools.estimator.evaluate(dataclasses.replace(there, plan=plan))
        assert np.all((report.first <= bounds[0]) & (report.each <= bounds[1]))
        switched += some.sizes["switch"]
    assert (switched > 0) == (bounds[0] > 1e-9)
    priced = {
        "prices": {"system.rate": {"price": 1.0, "per": "1 token/s"}},
        "bounds": {"system.rate": [100.0, 1e4]},
    }
    none = "no plan is within every limit on any machine"
    said = none if bounds[0] < 1e-8 else r"(first|each): exceeded by the best plan"
    with pytest.raises(InputError, match=said):
        jr.design(pools.estimator, question, settings=given, **priced)


def test_several_limits_hold_in_every_draw():
    given = {"limits.first": 0.2, "limits.each": 0.006}
    question = dataclasses.replace(pools.example(), plan=None)
    data = jr.uncertain(
        pools.estimator, question, distributions={"system.rate": [500.0, 4e3]}, samples=16,
        settings=given, top=99,
    )  # fmt: skip
    rates = data.parameter_drawn.values[0]
    for number, plan in enumerate(data.candidate.values):
        one = {f"plan.{f}": int(data[f].sel(candidate=plan)) for f in pools.estimator.plan_fields}
        asked = jr.tabulate(
            pools.estimator, pools.example(), settings={**given, **one}, axes={"system.rate": rates}
        )
        held = (asked["first"] <= 0.2) & (asked.each <= 0.006) & (asked.cache <= 16e9)
        answered = np.isfinite(data.cost_drawn.values)
        share = np.broadcast_to(held.values, answered.shape)[answered].mean()
        np.testing.assert_allclose(data.fits[number], share)
    assert np.any(data.fits < 1.0)


# ---- Training, against every plan at every point ------------------------------------------------


def machine(name="h200-nvs8", seed=None, **changes):
    """Return a question; with a seed, of a machine whose rates and latencies are random."""
    inputs = jr.Inputs(model=jr.model("gpt3"), system=jr.system(name, **changes))
    if seed is not None:
        random = np.random.default_rng(seed)
        for rate in RATES:
            path = f"system.{rate}"
            factor = np.exp(random.normal(0.0, 1.0))
            inputs = jr.replace_at(inputs, path, float(get_at(inputs, path)) * factor)
    return inputs


RATES = ["matrix_flops", "vector_flops", "hbm_bandwidth", "fast_bandwidth", "slow_bandwidth"]
RATES += ["launch_latency", "fast_latency", "slow_latency"]


def predicted(data, path, factors, plan):
    """Return the rows of plans that the switches name at each factor, today's where none did."""
    some = of(data, path)
    names = [json.loads(data.attrs["plan"])[field] for field in FIELDS]
    found = np.tile(names, (len(factors), 1))
    distance = np.abs(np.log(some.switch_factor.values))
    for i in np.argsort(distance):
        factor = some.switch_factor.values[i]
        beyond = factors > factor if factor > 1 else factors < factor
        found[beyond] = plans_of(some, FIELDS)[i]
    place = {row: i for i, row in enumerate(map(tuple, plan.tolist()))}
    return np.array([place[tuple(row)] for row in found.tolist()])


def against_every_plan(inputs, count, **options):
    """Check a response against the cost of every plan that fits at many values of each parameter.

    Beside every switch, on both sides, the plans before and behind it must be the best.
    """
    data = jr.response(jr.published, inputs, **options)
    held = jr.survey(jr.published, inputs, where=options.pop("where", ()), **options)
    held = held.isel(plan=held.feasible.values)
    plan = np.stack([held[field].values for field in FIELDS], axis=-1)
    recipe = jr.published.recipe
    split = options.pop("split", None)
    recipe = dataclasses.replace(recipe, split=jr.Split(split)) if split else recipe
    for path, value in options.items():
        inputs = jr.replace_at(inputs, path, float(value))
    for path in data.parameter.values:
        beside = of(data, path).switch_factor.values[:, None] * (1 + 1e-9 * np.array([-1, 0, 1]))
        factors = np.concatenate([np.geomspace(1 / 16, 16, count), beside.ravel()])
        factors = factors[(factors > 1 / 16) & (factors < 16)]
        if path.endswith("_efficiency"):
            factors = factors[factors * float(get_at(inputs, path)) <= 1.0]
        columns = dict(zip(FIELDS, np.repeat(plan.T * 1.0, len(factors), axis=1), strict=True))
        point = jr.replace_at(
            inputs, path, float(get_at(inputs, path)) * np.tile(factors, len(plan))
        )
        point = dataclasses.replace(point, plan=jr.Plan(**columns))
        time = evaluate_points(jr.published, recipe, point, "step_time")["step_time"]
        time = time.reshape(len(plan), len(factors))
        said = time[predicted(data, path, factors, plan), np.arange(len(factors))]
        assert np.all(said <= time.min(axis=0) * (1 + 2 * TIE)), path
    return data


def test_one_machine_against_every_plan():
    data = against_every_plan(machine("a100-nvs4"), 24, gpus=64, global_batch=64, split="1d")
    assert len(data.switch) > 10
    assert len(set(data.switch_parameter.values)) < len(data.parameter)  # some have none
    share = data.sel(parameter="system.matrix_efficiency")  # of 0.8: none is above 1
    assert np.array_equal(np.isnan(share.step_time), share.factor > 1.25)
    assert np.array_equal(share.tensor == -1, share.factor > 1.25)
    assert of(data, "system.matrix_efficiency").switch_until.max() <= 1.25
    bandwidth = of(data, "system.slow_bandwidth")
    today = float(machine("a100-nvs4").system.slow_bandwidth)
    assert np.allclose(bandwidth.switch_value, today * bandwidth.switch_factor, rtol=1e-15)


@pytest.mark.slow
@pytest.mark.parametrize("split", ["1d", "context", "summa"])
@pytest.mark.parametrize("seed", range(6))
def test_random_machines_against_every_plan(split, seed):
    options = {"gpus": 64, "global_batch": 64, "split": split}
    against_every_plan(machine("a100-nvs4", seed=seed), 200, **options)


@pytest.mark.slow
def test_constrained_plans_against_every_plan():
    options = {"gpus": 64, "global_batch": 64, "split": "context"}
    data = against_every_plan(machine(), 100, where="tensor<=2,context>1", **options)
    assert data.switch_tensor.max() <= 2
    assert data.switch_context.min() > 1


# ---- Capacity -----------------------------------------------------------------------------------


def against_the_masks(inputs, **options):
    """Check each step against searches at its value, the float below it and in between."""
    steps = jr.capacity_steps(jr.published, inputs, **options)
    assert steps.attrs["parameter"] == "system.hbm_capacity"
    value = steps.value.values
    middle = (value + np.append(value[1:], 2 * value[-1])) / 2
    places = np.concatenate([value, middle, np.nextafter(value[1:], 0), np.nextafter(value[:1], 0)])
    axes = {"system.hbm_capacity": places}
    best = jr.search(jr.published, inputs, axes=axes, **options).rename(hbm_capacity="step")
    count = len(value)
    for found, expected in (
        (best.isel(step=slice(0, count)), steps),
        (best.isel(step=slice(count, 2 * count)), steps),
        (best.isel(step=slice(2 * count, 3 * count - 1)), steps.isel(step=slice(0, -1))),
    ):
        for field in FIELDS:
            assert np.array_equal(found[field], expected[field]), field
        assert np.allclose(found.step_time, expected.step_time, rtol=1e-14)
        assert found.feasible.all()
    assert not best.feasible.values[-1]
    return steps


@pytest.mark.parametrize("usable", [1.0, 0.93])
def test_steps_are_what_the_masks_answer_at_every_capacity(usable):
    inputs = machine("a100-nvs4", hbm_usable=usable)
    options = {"gpus": 64, "global_batch": 64, "split": "1d"}
    steps = against_the_masks(inputs, **options)
    today = jr.search(jr.published, inputs, **options)
    here = steps.isel(step=steps.place.values == 0).squeeze()
    assert all(int(here[field]) == int(today[field]) for field in FIELDS)
    assert float(here.gain) == 0.0
    assert float(here.change) <= 0.0
    assert np.array_equal(np.diff(steps.place), np.ones(len(steps.step) - 1))
    assert np.allclose(steps.gain, 1 - steps.step_time / float(today.step_time))
    assert np.all(np.diff(steps.gain) > 0)
    assert np.allclose(steps.limit, steps.value * usable, rtol=1e-15)
    assert np.allclose(steps.change, steps.value - float(inputs.system.hbm_capacity))


@pytest.mark.slow
@pytest.mark.parametrize("split", ["context", "summa"])
@pytest.mark.parametrize("usable", [1.0, 0.7, 0.93])
def test_steps_of_every_split_are_what_the_masks_answer(split, usable):
    inputs = machine(hbm_usable=usable)
    against_the_masks(inputs, gpus=64, global_batch=64, split=split)


def test_where_nothing_fits_the_first_step_is_the_least_that_does():
    steps = jr.capacity_steps(lines, asked(straight((9, 1), need=150) + straight((5, 1), need=300)))
    assert steps.place.values.tolist() == [1, 2]
    assert steps.limit.values.tolist() == steps["value"].values.tolist() == [150, 300]
    assert steps.change.values.tolist() == [50, 200]
    assert np.all(np.isnan(steps.gain))
    assert steps.attrs["parameter"] == "capacity"


def test_steps_follow_the_objective_and_its_direction():
    rows = straight((9, 1), need=10) + straight((4, 1), need=20)
    fast = jr.capacity_steps(lines, asked(rows), objective="speed")
    assert fast.gain.values == pytest.approx([-1.0, 0.0])


def test_plans_that_nothing_limits_have_no_steps():
    free = dataclasses.replace(lines, need="", limit=None)
    with pytest.raises(InputError, match="lines: nothing limits its plans"):
        jr.capacity_steps(free, asked(straight((1, 1))))
    fixed = dataclasses.replace(lines, limit=lambda inputs: 7.0)
    with pytest.raises(InputError, match="lines: its limit is no capacity of the inputs"):
        jr.capacity_steps(fixed, asked(straight((1, 1))))
