"""Co-design: against solutions by hand, the conditions of an optimum, random search and people."""

import dataclasses
import functools
import json
import pathlib

import numpy as np
import pytest
from places import ROOT

import jaxroof as jr
from jaxroof.estimator import Estimator
from jaxroof.formulas.arithmetic import larger
from jaxroof.records import Number, quantity, record
from jaxroof.views.parameter_words import words_of
from jaxroof.views.text.design import bound_kinds, design_sentences, design_table, warning_sentences

# ---- By hand ------------------------------------------------------------------------------------


@record
class Shop:
    """Two rates and a latency."""

    first: Number = quantity("B/s", "A rate.", default=2.0)
    second: Number = quantity("FLOP/s", "Another.", default=5.0)
    wait: Number = quantity("s", "A latency.", default=0.25)


@record
class Took:
    """What it takes."""

    total: Number = quantity("s", "Time.")
    speed: Number = quantity("1/s", "Its reciprocal.", better="higher")


A, B, BUDGET = 3.0, 8.0, 60.0
PRICES = {"first": {"price": 4.0, "per": "1 B/s"}, "second": {"price": 10.0, "per": "2 FLOP/s"}}
BOUNDS = {"first": [0.01, 1e3], "second": ["0.01 FLOP/s", "1 kFLOP/s"]}
COST = np.array([4.0, 5.0])  # of a unit of either


def shop(total) -> Estimator:
    """Return an estimator of one function."""

    def step(inputs, recipe):
        time = total(inputs)
        return Took(total=time, speed=1.0 / time)

    return Estimator(step=step, inputs=Shop, objective="total", name="shop")


SUM = shop(lambda i: A / i.first + B / i.second)
SLOWER = shop(lambda i: larger(A / i.first, B / i.second) + i.wait)
RIDGE = shop(lambda i: -larger(-A / i.first, -B / i.second))  # the smaller of two: not convex


def bought(estimator, **asked):
    return jr.design(estimator, Shop(), **{"prices": PRICES, "bounds": BOUNDS, **asked})


def test_two_rates_share_a_budget_as_by_hand():
    """min a/p + b/q where cp + dq = M: p = sqrt(a/c) M / (sqrt(ac) + sqrt(bd)), t = (...)^2 / M."""
    root = np.sqrt(np.array([A, B]) * COST)
    data = bought(SUM, budget=BUDGET)
    rates = np.sqrt(np.array([A, B]) / COST) * BUDGET / root.sum()
    time = root.sum() ** 2 / BUDGET
    np.testing.assert_allclose(data.value[1], rates, rtol=1e-7)
    np.testing.assert_allclose(data.total[1], time, rtol=1e-12)
    np.testing.assert_allclose(data.budget_value, time / BUDGET, rtol=1e-7)
    np.testing.assert_allclose(data.saved_per_dollar[1], time / BUDGET, rtol=1e-7)
    assert float(data.gap) < 1e-10
    assert bool(data.convex)
    assert data.held.values.tolist() == [0, 0]


def test_cost_times_time_is_least_where_cauchy_says():
    """(F + cp + dq)(e + a/p + b/q) >= (sqrt(Fe) + sqrt(ac) + sqrt(bd))^2, the budget not spent."""
    fixed, wait = 7.0, 0.25
    estimator = shop(lambda i: A / i.first + B / i.second + i.wait)
    data = bought(estimator, budget=1e4, fixed=fixed, times_cost=True)
    least = (np.sqrt(fixed * wait) + np.sqrt(np.array([A, B]) * COST).sum()) ** 2
    rates = np.sqrt(np.array([A, B]) / COST) * np.sqrt(fixed / wait)
    np.testing.assert_allclose(data.least_objective, least, rtol=1e-12)
    np.testing.assert_allclose(data.value[1], rates, rtol=1e-6)
    saved = data.total[1] / data.cost[1]  # a dollar must save what it costs
    np.testing.assert_allclose(data.saved_per_dollar[1], saved, rtol=1e-6)
    assert float(data.budget_value) == 0.0
    assert "leaves" in " ".join(design_sentences(data))


def test_a_kink_is_found_and_its_sides_share_the_budget():
    """max(a/p, b/q) where cp + dq = M: both are (ac + bd) / M, though neither alone is worth it."""
    data = bought(SLOWER, budget=BUDGET)
    each = (A * COST[0] + B * COST[1]) / BUDGET
    np.testing.assert_allclose(data.total[1], each + 0.25, rtol=1e-10)
    np.testing.assert_allclose(data.value[1], np.array([A, B]) / each, rtol=1e-8)
    np.testing.assert_allclose(data.budget_value, each / BUDGET, rtol=1e-6)
    np.testing.assert_allclose(data.saved_per_dollar[1], each / BUDGET, rtol=1e-6)
    assert int(data.cuts) == 2


def test_less_of_a_latency_costs_more_and_powers_are_kept():
    """min a/p + w where c p^2 + d/w = M: the slopes per dollar a/p / (2 c p^2) = w / (d/w)."""
    prices = {
        "first": {"price": 4.0, "per": "1 B/s", "power": 2.0},
        "wait": {"price": 1.0, "per": "500 ms", "power": -1.0},
    }
    data = bought(
        shop(lambda i: A / i.first + i.wait), prices=prices, budget=BUDGET,
        bounds={"first": [0.01, 1e3], "wait": ["1 us", "10 s"]},
    )  # fmt: skip
    rate, wait = data.value.values[1]
    np.testing.assert_allclose(4 * rate**2 + 0.5 / wait, BUDGET, rtol=1e-10)
    np.testing.assert_allclose(A / rate / (8 * rate**2), wait**2 / 0.5, rtol=1e-6)


def test_bounds_hold_and_say_what_they_are_worth():
    """A rate at its most leaves money; what nothing reads falls to its least."""
    bounds = {"first": [0.01, 1.0], "second": [0.01, 2.0], "wait": [0.1, 1.0]}
    prices = {**PRICES, "wait": {"price": 1.0, "per": 1.0, "power": -1.0}}
    data = bought(SUM, prices=prices, bounds=bounds, budget=BUDGET)
    assert data.value.values[1].tolist() == [1.0, 2.0, 1.0]
    assert data.held.values.tolist() == [2, 2, 1]
    np.testing.assert_allclose(data.multiplier, np.array([3 / 7, 4 / 7, 0.0]), atol=1e-12)
    assert not bool(data.budget_active)


@pytest.mark.parametrize(("field", "held"), [("first", 2), ("second", 1)])
def test_a_field_that_may_not_move_is_told_by_where_it_would_go(field, held):
    end = float(getattr(Shop(), field))
    data = bought(SUM, bounds={**BOUNDS, field: [end, end]})
    flags = dict(zip(data.field.values.tolist(), data.held.values.tolist(), strict=True))
    assert flags[field] == held
    assert float(data.multiplier.sel(field=data.field == field)[0]) > 0
    assert design_sentences(data)[0].startswith("The same $33 a part buys nothing better than")


def test_a_smaller_budget_takes_longer():
    said = design_sentences(bought(SUM, budget=11.0))
    assert said[0].startswith("$11 a part takes ")
    assert "% more total: " in said[0]


def test_fields_in_proportion_move_as_one():
    """The second rides on the first: both scale with what the budget buys of it."""
    prices = {"first": {**PRICES["first"], "with": ["second"]}}
    data = bought(SUM, prices=prices, bounds={"first": BOUNDS["first"]}, budget=16.0)
    np.testing.assert_allclose(data.value[1], [4.0], rtol=1e-10)
    np.testing.assert_allclose(data.total[1], A / 4.0 + B / 10.0, rtol=1e-10)


def test_what_is_not_convex_is_said():
    data = bought(RIDGE, budget=BUDGET)
    assert not bool(data.convex)
    assert "not convex" in " ".join(warning_sentences(data))


# ---- A training step ----------------------------------------------------------------------------

STEP_PRICES = {
    "system.matrix_flops": {
        "price": 9e3, "per": "2.5 PFLOP/s", "power": 1.2, "with": ["system.vector_flops"],
    },
    "system.hbm_bandwidth": {"price": 0.5, "per": "1 GB/s"},
    "system.hbm_capacity": {"price": 15.0, "per": "1 GB"},
    "system.fast_bandwidth": {"price": 3.0, "per": "1 GB/s"},
    "system.slow_bandwidth": {"price": 40.0, "per": "1 GB/s"},
}  # fmt: skip
STEP_BOUNDS = {
    "system.matrix_flops": ["0.2 PFLOP/s", "20 PFLOP/s"],
    "system.hbm_bandwidth": ["0.5 TB/s", "60 TB/s"],
    "system.hbm_capacity": ["8 GB", "2 TB"],
    "system.fast_bandwidth": ["20 GB/s", "8 TB/s"],
    "system.slow_bandwidth": ["2 GB/s", "1 TB/s"],
}
FIXED, GPUS, BATCH, STARTS = 1e4, 64, 512, 16
FIELDS = tuple(STEP_PRICES)


def inputs() -> jr.Inputs:
    return jr.Inputs(model=jr.model("gpt3"), system=jr.system("b200-nvs8"))


@functools.cache
def designed(extra: float = 0.0, times_cost: bool = False):
    """Return the design of GPT-3's step for the price of a B200-like part and a little more."""
    base = costs(np.ones((1, len(FIELDS))))[0]
    return jr.design(
        jr.published, inputs(), prices=STEP_PRICES, bounds=STEP_BOUNDS, fixed=FIXED, starts=STARTS,
        budget=base * (1.0 + extra), times_cost=times_cost, minimise="training_days",
        gpus=GPUS, global_batch=BATCH,
    )  # fmt: skip


def costs(factors: np.ndarray) -> np.ndarray:
    """Return what machines cost, by the formula of the price table and nothing of the engine."""
    system = inputs().system
    base = [float(getattr(system, path.partition(".")[2])) for path in FIELDS]
    per = np.array([2.5e15, 1e9, 1e9, 1e9, 1e9])
    price = np.array([STEP_PRICES[path]["price"] for path in FIELDS])
    power = np.array([STEP_PRICES[path].get("power", 1.0) for path in FIELDS])
    return FIXED + (price * (base * factors / per) ** power).sum(axis=1)


def searched(factors: np.ndarray):
    """Return the best plans of machines, a row of factors of the base each."""
    system = inputs().system
    columns = {
        path: float(getattr(system, path.partition(".")[2])) * factors[:, number]
        for number, path in enumerate(FIELDS)
    }
    columns["system.vector_flops"] = float(system.vector_flops) * factors[:, 0]
    asked = {"gpus": GPUS, "global_batch": BATCH, "objective": "training_days"}
    return jr.search(jr.published, inputs(), axes={"machine": columns}, **asked)


def test_the_budget_is_kept_and_the_search_agrees():
    data = designed()
    factors = (data.value[1] / data.value[0]).values[None]
    np.testing.assert_allclose(costs(factors), data.budget, rtol=1e-9)
    assert costs(factors)[0] <= float(data.budget) * (1 + 1e-12)
    found = searched(np.repeat(factors, STARTS, axis=0)).isel(machine=0)
    assert float(found.step_time) == pytest.approx(float(data.step_time[1]), rel=1e-12)
    assert float(data.step_time[1]) < 0.9 * float(data.step_time[0])
    assert float(data.least_objective) == pytest.approx(float(data.training_days[1]), rel=1e-12)
    assert float(data.gap) < 1e-8
    assert bool(data.convex)
    assert int(data.plans_solved) < 0.2 * int(data.plans_held)


def test_a_dollar_saves_as_much_in_every_field_that_is_free():
    """Time saved per dollar is equal inside, less where the plan's need holds a field."""
    data = designed()
    free = data.held.values == 0
    assert free.sum() >= 3
    np.testing.assert_allclose(data.saved_per_dollar.values[1, free], data.budget_value, rtol=1e-5)
    assert data.held.values[FIELDS.index("system.hbm_capacity")] == 3
    assert np.ptp(data.saved_per_dollar.values[0, free]) > 0.1 * float(data.budget_value)


def test_the_multiplier_is_the_slope_of_the_optimum_in_the_budget():
    step = 1e-4
    more, less, data = designed(step), designed(-step), designed()
    slope = (less.training_days[1] - more.training_days[1]) / (more.budget - less.budget)
    assert float(data.budget_value) == pytest.approx(float(slope), rel=1e-4)


def test_no_random_machine_of_the_budget_does_better():
    """Thousands of machines: even shares of the money, and around the best; its own plan each."""
    data, rng = designed(), np.random.default_rng(7)
    count = 1 << 11
    best = (data.value[1] / data.value[0]).values
    money = rng.dirichlet(np.ones(len(FIELDS)), count) * (float(data.budget) - FIXED)
    single = costs(np.eye(len(FIELDS)) + 1e-300) - FIXED  # what each field of the base costs
    power = np.array([STEP_PRICES[path].get("power", 1.0) for path in FIELDS])
    even = (money / single) ** (1.0 / power)
    scale = rng.choice([0.01, 0.1, 0.5], (count, 1))
    near = best * np.exp(scale * rng.normal(size=(count, len(FIELDS))))
    near[:, 0] *= np.exp(-np.maximum(0.0, np.log(costs(near) / float(data.budget))) * 3)
    some = np.concatenate([even, near])
    some = some[costs(some) <= float(data.budget)]
    assert len(some) > 1.2 * count
    least = float(np.nanmin(searched(some).step_time)) / float(data.step_time[1])
    assert 1 - 1e-12 <= least < 1.01  # some come close: the test is not idle


def test_cost_times_days_buys_less_and_a_plan_of_ones_own_is_kept():
    data = designed(times_cost=True, extra=1e3)
    assert not bool(data.budget_active)
    assert float(data.cost[1]) < float(data.budget)
    free = data.held.values == 0
    saved = float(data.training_days[1] / data.cost[1])
    np.testing.assert_allclose(data.saved_per_dollar.values[1, free], saved, rtol=1e-5)
    plan = jr.Plan(data=8.0, tensor=8.0, pipeline=1.0, microbatch=1.0, fast_tensor=8.0)
    own = jr.design(
        jr.published, dataclasses.replace(inputs(), plan=plan), prices=STEP_PRICES,
        bounds=STEP_BOUNDS, fixed=FIXED, minimise="training_days", gpus=GPUS,
        global_batch=BATCH,
    )  # fmt: skip
    assert float(own.memory[1]) == pytest.approx(float(own.hbm_capacity[1]), rel=1e-9)
    assert float(own.step_time[1]) >= float(designed().step_time[1]) * (1 - 1e-9)


# ---- What people read ---------------------------------------------------------------------------

WITH = 'with = ["system.vector_flops"]'
FILE = f"""
title = "A part"
estimator = "published"
model = "gpt3"
system = "b200-nvs8"
plan = {{ gpus = {GPUS}, global_batch = {BATCH} }}
fixed = {FIXED:g}
starts = {STARTS}
[price]
"system.matrix_flops" = {{ price = 9e3, per = "2.5 PFLOP/s", power = 1.2, {WITH} }}
"system.hbm_bandwidth" = {{ price = 0.5, per = "1 GB/s" }}
"system.hbm_capacity" = {{ price = 15, per = "1 GB" }}
system.fast_bandwidth = {{ price = 3, per = "1 GB/s" }}
"system.slow_bandwidth" = {{ price = 40, per = "1 GB/s" }}
[bounds]
""" + "\n".join(f'"{path}" = {json.dumps(ends)}' for path, ends in STEP_BOUNDS.items())


def test_the_command_says_what_comes_and_what_goes(jaxroof):
    pathlib.Path("part.toml").write_text(FILE)
    said = jaxroof("design part.toml -o part.json --verbose")
    assert said.code == 0
    data = jr.read("part.json")
    fewer = 100 * (1 - float(data.training_days[1] / data.training_days[0]))
    assert f"buys {fewer:.3g} % fewer days" in said.words
    assert "of compute" in said.words
    assert "what the plan needs" in said.words
    assert "Spend it on +" in said.words
    assert "descents ended there" in said.words


CAPACITY, FLOPS = "system.hbm_capacity", "system.matrix_flops"
ENDS = json.dumps(STEP_BOUNDS[CAPACITY])
REFUSED = [  # what is written instead of what, the one line
    ('per = "1 GB"', 'per = "1 GB/s"', f"price.{CAPACITY}.per: 'GB/s' is not an amount of memory"),
    ("price = 15", "price = -15", f"price.{CAPACITY}.price: expected dollars above 0, given -15"),
    ("hbm_capacity", "hbm_capacty", "system.hbm_capacty: no such field of System. Did you mean 'h"),
    ("vector_flops", "hbm_bandwidth", "system.hbm_bandwidth: priced twice; expected it once"),
    (ENDS, '["1 GB", "2 GB"]', f"bounds.{CAPACITY}: exclude every plan: the leanest needs"),
    (ENDS, '["2 TB", "8 GB"]', f"bounds.{CAPACITY}: expected the least first, above 0"),
    (f'"{CAPACITY}" = {ENDS}', "", f"bounds.{CAPACITY}: missing; expected the least and the most"),
    ("fixed = 10000", "budget = 1000",
     "budget: $1,000 buys no machine that holds a plan; expected at least $"),
    ("fixed = ", "budget = 9 # ", "budget: expected at least the $"),
    ("power = 1.2", "power = -1.2", f"{FLOPS}: what costs more makes it worse; expected a price"),
    ("power = 1.2", "powr = 1.2", f"price.{FLOPS}.powr: no such key of a price. Did you mean 'p"),
    ("fixed = ", 'minimise = "cost" # ', "minimise: cost: no such aim. Did you mean 'cost_days'?"),
    ("hbm_bandwidth", "fast_domain", "system.fast_domain: moves in whole steps; expected a field"),
    ("gpus = 64", "gpus = 0", "gpus: expected a whole number above 0"),
    ("gpus = 64", "gpu = 64", "plan.gpu: no such key of a design file. Did you mean 'gpus'?"),
    ("fixed = ", "fixed = 1e300 # ", "fixed: expected at most 1,000,000,000,000 dollars, given"),
    ("fixed = ", 'fixed = "1" # ', "fixed: expected dollars of at least 0, given '1'"),
    ("starts = ", "starts = 1_000_000_000 # ", "starts: expected a whole number from 1 to 4,096"),
    ("[price]", "[set]\nprices = 3\n[price]", "prices: no such field of Inputs; expected one of"),
    ("[price]", '[set]\nsystem = "x"\n[price]', "set.system: a key of its own; expected it as"),
    ("power = 1.2", "power = 1e3", f"price.{FLOPS}: expected a cost between $1 / 1e+12 and $1e"),
    ("with = [", "with = [3, ", f"price.{FLOPS}.with: expected a list of paths, given [3, 's"),
    ('{ price = 15, per = "1 GB" }', "{}", f"price.{CAPACITY}: price is missing; expected"),
]  # fmt: skip


@pytest.mark.parametrize(("written", "instead", "said"), REFUSED)
def test_what_cannot_be_used_is_refused_in_one_line(jaxroof, written, instead, said):
    pathlib.Path("part.toml").write_text(FILE.replace(written, instead))
    ended = jaxroof("design part.toml")
    assert ended.code == 2
    assert ended.err.startswith(f"jaxroof: part.toml: {said}")
    assert ended.err.count("\n") == 1
    assert ended.out == ""


def test_a_design_is_drawn_and_written():
    plots = pytest.importorskip("jaxroof.views.plots")
    values, money, saved = plots.draw(designed()).axes
    names = [label.get_text().replace("\n", " ") for label in values.get_yticklabels()]
    assert names == [words_of(path) for path in FIELDS]
    assert len(money.patches) == len(saved.patches) == 2 * len(FIELDS)
    assert design_table(designed()).row_count == len(FIELDS) + 2
    assert bound_kinds(designed())[list(FIELDS).index("system.hbm_capacity")] == "need"


def test_a_picture_of_machines_of_two_prices_says_both():
    plots = pytest.importorskip("jaxroof.views.plots")

    def found(data):
        return " ".join(" ".join(text.get_text().split()) for text in plots.draw(data).texts)

    dear = designed().assign(cost=designed().cost * np.array([1.0, 1.5]))
    base, best = (rf"\${float(cost):,.0f}" for cost in dear.cost.values)
    assert f"days for {best} instead of" in found(dear)
    assert f"days for {base} (" in found(dear)
    assert r"\$" not in found(designed())


# ---- The examples of the tree -------------------------------------------------------------------

EXAMPLES = sorted((ROOT / "sweeps" / "design").glob("*.toml"))


@pytest.mark.slow
@pytest.mark.parametrize("path", EXAMPLES, ids=lambda path: path.stem)
def test_the_price_of_a_part_is_spent_better(jaxroof, path):
    said = jaxroof(f"design {path} -o design.nc")
    assert said.code == 0
    data = jr.read("design.nc")
    assert float(data.training_days[1]) < 0.85 * float(data.training_days[0])
    np.testing.assert_allclose(data.cost[0], data.cost[1], rtol=1e-9)
    assert float(data.gap) < 1e-8
    free = data.held.values == 0
    np.testing.assert_allclose(data.saved_per_dollar.values[1, free], data.budget_value, rtol=1e-5)
