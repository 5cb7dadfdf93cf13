"""Exact sensitivities: what every estimator's slopes obey, and what is said of them over grids."""

import dataclasses
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from complex_step import Operations
from daily import daily
from estimator_laws import Law, example, laws, smooth
from refusals import refused

import jaxroof as jr
from jaxroof.engine.grid.question import ask
from jaxroof.engine.sensitivity.derivatives import one_sided_slopes, slopes
from jaxroof.engine.sensitivity.elasticities import at_plan
from jaxroof.errors import InputError
from jaxroof.estimator import Candidates, Estimator
from jaxroof.estimators.training.step import training
from jaxroof.records import checked, field_at, get_at, leaves, replace_at
from jaxroof.structure import results

POINTS = 128  # of each estimator and recipe
STEP = 1e-5
EXACT = 1e-10  # against a complex step
CLOSE = 1e-6  # against a finite difference
RATES = ("matrix_flops", "vector_flops", "hbm_bandwidth", "fast_bandwidth", "slow_bandwidth")
LATENCIES = ("launch_latency", "fast_latency", "slow_latency")
INPUTS = jr.Inputs(
    model=jr.model("gpt3-1t"), system=jr.system("b200-nvs8"), global_batch=4096.0, gpus=512.0
)


def along(law: Law, some: Any, ways: dict[str, float]) -> Any:
    """Return a function of a step [point] along a way through the parameters: every number."""

    def at(by: Any) -> dict[str, Any]:
        asked = some
        for path, way in ways.items():
            asked = replace_at(asked, path, get_at(asked, path) * jnp.exp(way * by))
        found = results(law.estimator.evaluate(asked, law.recipe))
        arrays = {name: jnp.asarray(value) for name, value in found.items()}
        return {name: v for name, v in arrays.items() if v.dtype == jnp.float64}

    return at


def around(inputs: Any, draw: np.random.Generator) -> Any:
    """Return inputs up to twice as large or small, counts up to three times, at random points."""
    for path, field, value in list(leaves(inputs)):
        counts, factors = draw.integers(1, 4, POINTS), 2 ** draw.uniform(-1.0, 1.0, POINTS)
        moved = value * (counts if field.metadata["whole"] else factors)
        inputs = replace_at(inputs, path, np.minimum(moved, field.metadata["most"]))
    # which are what the degrees make them, but on a torus
    plan = getattr(inputs, "plan", None)
    alone = not hasattr(inputs, "gpus") or plan is None or hasattr(plan, "slices")
    return inputs if alone else replace_at(inputs, "gpus", None)


DIFFERENCES = ("time_gather",)  # of near numbers: what nothing hides of a message
LOOPED = ("pipeline-", "limits-", "thresholds", "growth")  # of these the programs loop
OWN = ("whole_run",)  # whose slopes tests/formulas/test_whole_run.py holds


@pytest.mark.parametrize("law", [law for law in laws() if not law.id.startswith(LOOPED + OWN)])
def test_slopes_are_exact(law: Law) -> None:
    """Along a random way at random points: the slope of a complex step, and of a difference."""
    inputs = example(law)
    draw = np.random.default_rng(5)
    paths = [*smooth(inputs)]
    ways = dict(zip(paths, draw.uniform(-1.0, 1.0, len(paths)), strict=True))
    at, still = along(law, around(inputs, draw), ways), np.zeros(POINTS)
    plain = Operations(at, still)
    exact = plain.slope(still)
    here, found = jax.jvp(at, (jnp.asarray(still),), (jnp.ones(POINTS),))
    before, after = (plain(still + by) for by in (-STEP, STEP))
    sides = [plain.slope(still + by) for by in (-STEP, STEP)]
    for name, slope in found.items():
        size = np.abs(here[name]) + np.abs(exact[name])
        if name in DIFFERENCES:
            size = size + np.abs(exact["step_time"])
        assert np.all(np.abs(slope - exact[name]) <= EXACT * size), name
        # between the two sides of a difference the slope must not jump
        kink = np.abs(sides[0][name] + sides[1][name] - 2.0 * exact[name]) > 1e-7 * size
        difference = (after[name] - before[name]) / (2.0 * STEP)
        off = np.abs(slope - difference) <= CLOSE * size
        assert np.all(off | kink), name
        assert np.mean(kink) < 0.1, name


WIDE = 1e-4  # of a difference, where what is solved for has digits that are not settled


@pytest.mark.parametrize("law", [law for law in laws() if law.id.startswith(LOOPED)])
def test_slopes_of_loops_are_differences(law: Law) -> None:
    """Where a program loops: the slope of a difference along a random way at random points."""
    inputs = example(law)
    draw = np.random.default_rng(5)
    paths = [*smooth(inputs)]
    ways = dict(zip(paths, draw.uniform(-1.0, 1.0, len(paths)), strict=True))
    some, ones = around(inputs, draw), jnp.ones(POINTS)
    recipe = law.estimator.sized_recipe(some, law.recipe)
    at = along(Law(law.estimator, recipe), some, ways)
    both = jax.jit(lambda by: jax.jvp(at, (by,), (ones,)))
    steps = [both(by * ones) for by in (-WIDE, 0.0, WIDE)]
    seen = 0
    for name in steps[1][1]:
        before, here, after = (np.broadcast_to(value[name], POINTS) for value, _ in steps)
        down, own, up = (np.broadcast_to(slopes[name], POINTS) for _, slopes in steps)
        size = np.abs(here) + np.abs(own)
        kink = np.abs(down + up - 2.0 * own) > 1e-6 * size
        # a threshold jumps where another split is best: that is no kink of its slope
        kink |= np.abs(after - before - WIDE * (down + up)) > 1e-8 * size
        difference = (after - before) / (2.0 * WIDE)
        assert np.all((np.abs(own - difference) <= CLOSE * size) | kink), name
        seen += int(np.sum(~kink))
    assert seen > POINTS


def legal_plans(split: str, count: int) -> tuple[Any, Any]:
    """Return some legal plans of a split as columns, and their recipe."""
    data = jr.survey(jr.published, INPUTS, split=split, where="data<=64")
    rows = np.random.default_rng(3).choice(data.sizes["plan"], count, replace=False)
    plan = jr.Plan(**{f: data[f].values[rows].astype(float) for f in jr.published.plan_fields})
    recipe = dataclasses.replace(jr.published.recipe, split=jr.Split(split))
    return dataclasses.replace(checked(INPUTS), plan=plan), recipe


@pytest.mark.parametrize("split", daily(["1d", "summa", "context"], 0))
def test_counts_have_the_slopes_of_the_relaxed_step(split: str) -> None:
    """Counts are real numbers there, quotients not rounded: a complex step at legal plans."""
    inputs, recipe = legal_plans(split, 200)
    fields = [(path, field) for path, field, _ in leaves(inputs)]
    paths = [p for p, f in fields if f.metadata["whole"] and not p.startswith("system.")]
    assert {"model.hidden", "model.layers", "global_batch", "plan.tensor"} <= set(paths)
    value, found = slopes(jr.published, recipe, inputs, paths, "step_time")
    still = np.zeros((1, len(value)))
    ways = np.eye(len(paths))[:, :, None]

    def step_time(by: Any) -> Any:  # [way, point]
        moved = inputs
        for number, path in enumerate(paths):
            held = jnp.asarray(get_at(inputs, path)).reshape(1, -1)
            moved = replace_at(moved, path, held * jnp.exp(ways[number] * by))
        return jr.published.evaluate(moved, recipe).step_time

    relaxed = Operations(step_time, still, relaxed=True)
    whole = np.abs(relaxed(still)[0] - value) <= 1e-14 * value  # nothing is rounded at this plan
    assert np.mean(whole) > 0.5
    exact = relaxed.slope(still).T
    wrong = (np.abs(exact - found) > EXACT * value[:, None])[whole]
    assert not wrong.any(), np.array(paths)[wrong.any(axis=0)]
    # a degree decides, by how it compares with its group, what way a message takes: that jumps
    free = [i for i, path in enumerate(paths) if not path.startswith("plan.")]
    before, after = (relaxed(still + by).T[:, free] for by in (-STEP, STEP))
    size = value[:, None] * CLOSE
    assert np.mean(np.abs((after - before) / (2.0 * STEP) - exact[:, free]) < size) > 0.9


# ---- Over grids ---------------------------------------------------------------------------------

AXES = {
    "gpus": [8, 512],  # nothing fits on 8
    "system.hbm_bandwidth": jr.geomspace("1 TB/s", "16 TB/s", 3),
    "system.hbm_capacity": ["80 GB", "192 GB"],
}


@pytest.fixture(scope="module")
def grid() -> Any:
    return jr.elasticities(jr.published, INPUTS, axes=AXES)


def test_a_grid_has_the_slopes_of_its_winners(grid: Any) -> None:
    """The winner of each point first, then its derivative; what does not fit is masked."""
    fits = grid.feasible.values
    assert fits.any()
    assert not fits.all()
    assert np.array_equal(np.isfinite(grid.elasticity.values).all(axis=-1), fits)
    assert np.array_equal(np.isfinite(grid.elasticity_below.values).all(axis=-1), fits)
    one = grid.isel(gpus=1, hbm_bandwidth=1, hbm_capacity=1)
    plan = jr.Plan(**{field: float(one[field]) for field in jr.published.plan_fields})
    own = replace_at(INPUTS, "system.hbm_bandwidth", float(one.hbm_bandwidth))
    own = dataclasses.replace(own, plan=plan)
    alone = jr.elasticities(jr.published, own)
    assert float(alone.step_time) == pytest.approx(float(one.step_time), rel=1e-12)
    np.testing.assert_allclose(alone.elasticity, one.elasticity, rtol=1e-12, atol=1e-15)


def test_rates_less_latencies_sum_to_minus_one(grid: Any) -> None:
    by = grid.elasticity.where(grid.feasible, drop=True)
    rates = by.sel(parameter=[f"system.{name}" for name in RATES]).sum("parameter")
    latencies = by.sel(parameter=[f"system.{name}" for name in LATENCIES]).sum("parameter")
    held = grid.feasible.where(grid.feasible, drop=True) == 1
    total = (rates - latencies).values[held.values]
    np.testing.assert_allclose(total, -1.0, rtol=1e-12)


def test_every_number_of_the_machine_has_one(grid: Any) -> None:
    told = [path for path, _, _ in leaves(INPUTS) if path.startswith("system.")]
    assert list(grid.parameter.values) == told
    assert grid.parameter_units.sel(parameter="system.hbm_bandwidth") == "B/s"
    assert bool(grid.relaxed.sel(parameter="system.fast_domain"))
    best = grid.isel(gpus=1).elasticity
    assert np.all(best.sel(parameter="system.hbm_capacity") == 0.0)
    faster = best.sel(parameter=[f"system.{name}" for name in RATES])
    assert np.all(faster <= 0.0)


def test_nothing_binds_what_nothing_moves(grid: Any) -> None:
    from jaxroof.views.text.elasticities import binding_sentence, of_time

    still = grid.assign(elasticity=0.0 * grid.elasticity)
    assert binding_sentence(still) == "Nothing asked about moves step_time."
    assert of_time(grid)
    assert not of_time(grid.assign_attrs(of="memory"))


def test_choices_and_other_results_have_them_too() -> None:
    data = jr.elasticities(
        jr.published, INPUTS, axes={"split": ["1d", "summa"]}, of="throughput",
        parameters=["system.matrix_flops", "global_batch"],
    )  # fmt: skip
    assert data.elasticity.dims == ("split", "parameter")
    time = jr.elasticities(jr.published, INPUTS, parameters=["system.matrix_flops"])
    np.testing.assert_allclose(
        data.elasticity.isel(split=0, parameter=0), -time.elasticity.isel(parameter=0), rtol=1e-12
    )
    assert data.relaxed.values.tolist() == [False, True]


@pytest.mark.parametrize("name", ["unfused", "matmul", "moe_step"])
def test_estimators_without_a_search_have_them(name: str) -> None:
    """On the records of an example, with an axis: exact against the result on both sides."""
    from jaxroof.estimators import estimator

    asked = estimator(name)
    inputs = asked.example()
    path = next(p for p, f, _ in leaves(inputs) if not f.metadata["whole"] and "flops" in p)
    values = float(get_at(inputs, path)) * np.array([0.7, 1.1])
    data = jr.elasticities(asked, inputs, axes={path: values})
    sides = [jr.tabulate(asked, inputs, axes={path: values * f}) for f in (1 - STEP, 1 + STEP)]
    times = [side[data.attrs["of"]].values for side in sides]
    found = data.elasticity.sel(parameter=path).values
    np.testing.assert_allclose(np.log(times[1] / times[0]) / (2 * STEP), found, atol=CLOSE)


FILE = """
estimator = "published"
model = "gpt3-1t"
system = "b200-nvs8"
plan = { global_batch = 4096 }
answer = "elasticities"
[axes]
gpus = [8, 512]
"system.hbm_bandwidth" = { from = "1 TB/s", to = "16 TB/s", count = 3, spacing = "log" }
"system.hbm_capacity" = ["80 GB", "192 GB"]
"""


def test_a_sweep_file_asks_for_them(jaxroof: Any, grid: Any, tmp_path: Any) -> None:
    """The file's answer is that of Python; what is printed says what binds, and where."""
    (tmp_path / "binds.toml").write_text(FILE)
    (tmp_path / "three.toml").write_text(FILE.rpartition('"system.hbm_c')[0])
    data = jr.run(tmp_path / "binds.toml")
    assert np.array_equal(data.elasticity, grid.elasticity, equal_nan=True)
    said = jaxroof("run three.toml -o binds.nc")
    assert said.code == 0
    assert "What binds step_time most" in said.out
    most = data.isel(gpus=1, hbm_capacity=1).elasticity.sel(parameter="system.matrix_flops")
    assert f"compute {-100 * float(most[-1]):.0f}" in said.out
    assert "What binds most: compute at" in said.out
    back = jr.read(tmp_path / "binds.nc")
    held = grid.isel(hbm_capacity=1).elasticity
    np.testing.assert_allclose(back.elasticity, held, rtol=1e-12)
    assert back.parameter.values.tolist() == grid.parameter.values.tolist()


@pytest.mark.parametrize(("found", "instead", "said"), [
    ("[axes]", '[elasticities]\nparameters = ["system.nic"]\n[axes]', "Did you mean 'system.ni"),
    ("[axes]", "[elasticities]\nof = 3\n[axes]", "elasticities.of: expected a text, given 3"),
    ("[axes]", "[elasticities]\nby = 3\n[axes]", "elasticities.by: no such key"),
    ("[axes]", "[search]\ntop = 3\n[axes]", "search.top: no such key"),
    ('"elasticities"', '"elasticity"', "elasticity: no such answer of published. Did you mean"),
    ('answer = "elasticities"', "[elasticities]\nof = 'memory'", "elasticities: not asked for"),
])  # fmt: skip
def test_what_a_sweep_file_may_not_ask(
    jaxroof: Any, tmp_path: Any, found: str, instead: str, said: str
) -> None:
    (tmp_path / "bad.toml").write_text(FILE.replace(found, instead, 1))
    answer = jaxroof("run bad.toml")
    assert answer.code == 2
    assert answer.err.count("\n") == 1
    assert said in answer.err


# ---- Ridges and traps ---------------------------------------------------------------------------


@jr.record
class Bound:
    """Work on a machine of two rates."""

    work: float = jr.quantity("FLOP", "Arithmetic.", default=3e12)
    rate: float = jr.quantity("FLOP/s", "Arithmetic a second.", default=3e12)
    bandwidth: float = jr.quantity("B/s", "Bytes a second.", default=1e12)
    latency: float = jr.quantity("s", "Before it starts.", default=0.0, zero=True)


def _time(inputs: Any, recipe: Any) -> Any:
    arithmetic, traffic = inputs.work / inputs.rate, 1e12 / inputs.bandwidth
    return {"time": jnp.where(arithmetic > traffic, arithmetic, traffic) + inputs.latency}


def test_a_ridge_has_two_sides() -> None:
    """Where arithmetic ties with traffic, a faster part helps nothing and a slower one hurts."""
    ridge = Estimator(step=_time, inputs=Bound)
    data = jr.elasticities(ridge, Bound(), axes={"bandwidth": [1e12, 0.5e12]}, of="time")
    at = data.isel(bandwidth=0)
    expected = {"work": (1.0, 0.0), "rate": (0.0, -1.0), "bandwidth": (0.0, -1.0)}
    for path, (above, below) in expected.items():
        one = at.sel(parameter=path)
        assert bool(one.tie), path
        assert float(one.elasticity) == pytest.approx(above, abs=1e-9)
        assert float(one.elasticity_below) == pytest.approx(below, abs=1e-9)
    assert not bool(at.tie.sel(parameter="latency"))
    off = data.isel(bandwidth=1)
    assert not off.tie.any()
    assert off.elasticity.values == pytest.approx([0.0, 0.0, -1.0, 0.0])


@pytest.mark.parametrize("split", daily(["1d", "summa", "context"], 1))
def test_a_training_step_on_a_ridge_has_two_sides(split: str) -> None:
    """The two one-sided slopes of a real step are its one-sided differences."""
    inputs, recipe = legal_plans(split, 4)
    path, reach = "system.hbm_bandwidth", 1e-6

    def times(factor: float) -> Any:
        moved = replace_at(inputs, path, float(INPUTS.system.hbm_bandwidth) * factor)
        return slopes(jr.published, recipe, moved, [path], "step_time")

    low, high = 0.3, 3.0  # where is the kink of the first plan: halve towards the change of slope
    end = times(high)[1][0, 0] * high
    for _ in range(60):
        middle = np.sqrt(low * high)
        same = np.isclose(times(middle)[1][0, 0] * middle, end, rtol=1e-9)
        low, high = (low, middle) if same else (middle, high)
    moved = replace_at(inputs, path, float(INPUTS.system.hbm_bandwidth) * high)
    found = one_sided_slopes(jr.published, recipe, moved, [path], "step_time")
    assert found.tie[0, 0]
    assert not found.tie[1:].all()
    here, up, down = (times(high * f)[0][0] for f in (1.0, 1.0 + reach, 1.0 - reach))
    scale = 1e-4 * here
    assert found.above[0, 0] == pytest.approx((up - here) / reach, abs=scale)
    assert found.below[0, 0] == pytest.approx((here - down) / reach, abs=scale)
    assert found.above[0, 0] > found.below[0, 0]


@jr.record
class Share:
    """How many shares the work is cut into."""

    shares: float = jr.quantity("1", "Shares.", whole=True)


@jr.record
class Room:
    """A machine with room for few shares."""

    rate: float = jr.quantity("1/s", "Work a second.", default=4.0)
    room: float = jr.quantity("1", "Room.", default=2.5)
    plan: Share | None = None


def _crowded(inputs: Any, recipe: Any) -> Any:
    left = inputs.room - inputs.plan.shares
    # more shares are faster, until there is no room left: then neither value nor slope is real
    time = 1.0 / (inputs.rate * inputs.plan.shares) + 0.01 / jnp.sqrt(left)
    return {"time": time, "need": inputs.plan.shares + 0.0 * inputs.rate, "feasible": left > 0.0}


def test_plans_that_do_not_fit_leave_no_mark_on_a_slope() -> None:
    """The least of where(fits, time, inf) has no slope here; the winner has the right one."""
    shares = np.array([1.0, 2.0, 3.0, 4.0])

    def naive(rate: Any) -> Any:
        report = _crowded(Room(rate=rate, plan=Share(shares=shares)), None)
        return jnp.min(jnp.where(report["feasible"], report["time"], jnp.inf))

    @jr.record
    class Answer:
        """What a share takes."""

        time: Any = jr.quantity("s", "Time.")
        need: Any = jr.quantity("1", "Room it needs.")
        feasible: Any = jr.quantity("1", "There is room.")

    asked = Estimator(
        step=lambda inputs, recipe: Answer(**_crowded(inputs, recipe)),
        inputs=Room, plan=Share, objective="time", need="need", limit=lambda inputs: inputs.room,
        candidates=lambda inputs, recipe: Candidates({"shares": shares}, {}), name="crowded",
    )  # fmt: skip
    data = jr.elasticities(asked, Room(), parameters=["rate"])
    assert int(data.shares) == 2
    time = 1.0 / 8.0 + 0.01 / np.sqrt(0.5)
    assert float(data.elasticity.sel(parameter="rate")) == pytest.approx(-1.0 / 8.0 / time)
    with jax.debug_nans(False):
        by_room = jax.grad(lambda room: naive_room(room, shares))(2.5)
    assert not np.isfinite(by_room), "the trap is one"
    by_room = jr.elasticities(asked, Room(), parameters=["room"]).elasticity
    assert float(by_room[0]) == pytest.approx(-0.5 * 2.5 * 0.01 / 0.5**1.5 / time)
    none = jr.elasticities(asked, Room(), axes={"room": [0.5, 2.5]}, parameters=["rate"])
    assert none.feasible.values.tolist() == [False, True]
    assert np.isfinite(none.elasticity.values[:, 0]).tolist() == [False, True]


def naive_room(room: Any, shares: Any) -> Any:
    report = _crowded(Room(rate=4.0, room=room, plan=Share(shares=shares)), None)
    return jnp.min(jnp.where(report["feasible"], report["time"], jnp.inf))


# ---- Bad input ----------------------------------------------------------------------------------

BAD = [  # options, what is said
    ({"parameters": ["system.hbm_bandwith"]}, "parameter of published. Did you mean 'system.hbm_b"),
    ({"parameters": ["hbm_bandwidth"]}, "Did you mean 'system.hbm_bandwidth'?"),
    ({"parameters": "model.hiden"}, "Did you mean 'model.hidden'?"),
    ({"parameters": ["plan.tensr"]}, "Did you mean 'plan.tensor'?"),
    ({"parameters": ["system"]}, "system: a record, not a number; expected system.FIELD"),
    ({"parameters": ["system.link_latency"]}, "system.link_latency"),
    ({"parameters": []}, "parameters: none given"),
    ({"parameters": [3]}, "parameters: expected dotted paths, given 3"),
    ({"parameters": ["gpus", "gpus"]}, "gpus: given twice"),
    ({"of": "step_tim"}, "of: step_tim: no such result. Did you mean 'step_time'?"),
    ({"of": "feasible"}, "of: feasible: no such result"),
    ({"objective": "speed"}, "objective: speed: no such result"),
]


@pytest.mark.parametrize(("options", "said"), BAD)
def test_what_is_not_a_parameter_is_said_in_one_line(options: Any, said: str) -> None:
    assert said in refused(jr.elasticities, jr.published, INPUTS, **options)


def test_a_plan_of_ones_own_is_not_searched() -> None:
    inputs, _ = legal_plans("1d", 1)
    own = jax.tree.map(lambda leaf: np.float64(np.ravel(leaf)[0]), inputs)
    with pytest.raises(InputError, match="of a search"):
        jr.elasticities(jr.published, own, where="tensor=8")
    assert field_at(own, "plan.tensor").metadata["whole"]


@pytest.mark.parametrize("model", daily(["llama3-8b", "deepseek-v3"], 1))
def test_a_step_has_a_slope_with_every_number_where_parts_are_absent(model: str) -> None:
    given = {"system": "gb200-nvl72", "gpus": 64, "global_batch": 128, "plan.data": 64}
    _, inputs, recipe, _ = ask(training, settings={"model": model, **given})
    every = tuple(path for path, _, _ in leaves(inputs))
    data = at_plan(training, inputs, recipe, every, "step_time")
    assert np.isfinite(data.elasticity.values).all()
