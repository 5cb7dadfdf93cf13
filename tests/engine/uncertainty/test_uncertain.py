"""Uncertain inputs: known indices, known probabilities and costs, bands, tables, pictures, errors.

What a search of all draws answers is checked against every plan evaluated in every draw.
"""

import dataclasses
import math

import jax.numpy as jnp
import numpy as np
import pytest
import scipy.stats
import xarray as xr
from places import ROOT
from refusals import refused

import jaxroof as jr
from jaxroof.engine.grid.evaluate import evaluate_points
from jaxroof.engine.search.one_machine import ranked
from jaxroof.engine.uncertainty.distributions import distribution, indices, points
from jaxroof.estimator import FAR, Candidates
from jaxroof.estimators import estimator
from jaxroof.records import Number, replace_at
from jaxroof.views import plots
from jaxroof.views.text import uncertain as views

EXAMPLES = sorted((ROOT / "sweeps" / "uncertain").glob("*.toml"))
UNIT = np.linspace(0.0005, 0.9995, 1000)  # shares of a probability


# ---- Functions whose indices are known ----------------------------------------------------------


@jr.record
class Cube:
    """Inputs of a test function; angles from 0 to 2 pi, numbers from 0 to 1."""

    first: Number = jr.quantity("1", "The first.", zero=True, default=0.5)
    second: Number = jr.quantity("1", "The second.", zero=True, default=0.5)
    third: Number = jr.quantity("1", "The third.", zero=True, default=0.5)
    fourth: Number = jr.quantity("1", "The fourth.", zero=True, default=0.5)


def ishigami(cube, recipe):
    x, y, z = (angle - math.pi for angle in (cube.first, cube.second, cube.third))
    return jnp.sin(x) + 7.0 * jnp.sin(y) ** 2 + 0.1 * z**4 * jnp.sin(x)


def g_function(cube, recipe):
    found = 1.0
    for number, a in zip((cube.first, cube.second, cube.third, cube.fourth), A, strict=True):
        found = found * (jnp.abs(4.0 * number - 2.0) + a) / (1.0 + a)
    return {"product": found}


A = (0.0, 1.0, 4.5, 9.0)
PARTS = np.array([1.0 / (3.0 * (1.0 + a) ** 2) for a in A])  # variances of the factors
WHOLE = np.prod(1.0 + PARTS) - 1.0
OTHERS = np.array([np.prod(1.0 + np.delete(PARTS, i)) for i in range(4)])

ANGLE, SHARE = [0.0, 2.0 * math.pi], [0.0, 1.0]
ALONE, TOGETHER = 0.5 * (1.0 + 0.1 * math.pi**4 / 5.0) ** 2, 8.0 * 0.01 * math.pi**8 / 225.0
VARIANCE = ALONE + 49.0 / 8.0 + TOGETHER
KNOWN = [  # function, what its inputs are drawn from, mean, variance, first, total; Sobol 1993
    (ishigami, dict.fromkeys(("first", "second", "third"), ANGLE), 3.5, VARIANCE,
     np.array([ALONE, 49.0 / 8.0, 0.0]) / VARIANCE,
     np.array([ALONE + TOGETHER, 49.0 / 8.0, TOGETHER]) / VARIANCE),
    (g_function, dict.fromkeys(("first", "second", "third", "fourth"), SHARE), 1.0, WHOLE,
     PARTS / WHOLE, PARTS * OTHERS / WHOLE),
]  # fmt: skip


@pytest.mark.parametrize(
    ("function", "spread", "mean", "variance", "first", "total"), KNOWN, ids=["ishigami", "g"]
)
def test_indices_are_those_that_are_known(function, spread, mean, variance, first, total):
    estimator = jr.Estimator(step=function, inputs=Cube, name="known")
    found = jr.uncertain(estimator, Cube(), distributions=spread, samples=1 << 13)
    aim = found.attrs["objective"]
    np.testing.assert_allclose(found.sobol_first, first, atol=0.01)
    np.testing.assert_allclose(found.sobol_total, total, atol=0.01)
    assert np.all(np.abs(found.sobol_first - first) <= found.sobol_first_error)
    assert np.all(np.abs(found.sobol_total - total) <= found.sobol_total_error)
    assert float(found[f"{aim}_mean"]) == pytest.approx(mean, rel=1e-3)
    assert float(found[f"{aim}_deviation"]) ** 2 == pytest.approx(variance, rel=1e-2)
    assert found.parameter.values.tolist() == list(spread)
    assert "probability" not in found


def test_indices_are_those_of_scipy():
    def function(x):
        return np.stack([ishigami(Cube(first=x[0], second=x[1], third=x[2]), None), x[0] - x[2]])

    spread = scipy.stats.uniform(0.0, 2.0 * math.pi)
    theirs = scipy.stats.sobol_indices(
        func=function, n=512, dists=[spread] * 3, rng=np.random.default_rng(7)
    )
    ours = indices(function(2.0 * math.pi * points(3, 1024, seed=7)), 3)
    np.testing.assert_allclose(ours.first, theirs.first_order, rtol=1e-9, atol=1e-12)
    np.testing.assert_allclose(ours.total, theirs.total_order, rtol=1e-9, atol=1e-12)


# ---- Distributions ------------------------------------------------------------------------------

MACHINE = jr.Inputs(model=jr.model("gpt3"), system=jr.system("a100-nvs4"), gpus=64, global_batch=64)
LAUNCH, MATRIX = "system.launch_latency", "system.matrix_efficiency"
SPREADS = [  # path, written, what scipy says or the values, words
    (MATRIX, ["70 %", "0.9"], scipy.stats.uniform(0.7, 0.2), "0.7 to 0.9"),
    (
        MATRIX,
        {"from": 0.6, "to": 0.9, "shape": "triangular", "peak": 0.8},
        scipy.stats.triang(2 / 3, 0.6, 0.3),
        "0.6 to 0.9, peak 0.8",
    ),
    (
        LAUNCH,
        {"from": "2 us", "to": "50 us", "shape": "loguniform"},
        scipy.stats.loguniform(2e-6, 50e-6),
        "2 us to 50 us, loguniform",
    ),
    (LAUNCH, {"around": "50 %"}, scipy.stats.uniform(10e-6, 20e-6), "10 us to 30 us"),
    (
        LAUNCH,
        {"around": 0.5, "shape": "triangular"},
        scipy.stats.triang(0.5, 10e-6, 20e-6),
        "10 us to 30 us, peak 20 us",
    ),
    (
        MATRIX,
        {"mean": 0.9, "deviation": "10 %"},  # cut off at 1
        scipy.stats.truncnorm(-9.0, 1.0, 0.9, 0.1),
        "normal, 0.9 ± 0.1",
    ),
    (
        "system.nics",
        {"values": [1, 2, 4], "weights": [1, 2, 1]},
        np.repeat([1.0, 2.0, 4.0], [250, 500, 250]),
        "1 (0.25) or 2 (0.5) or 4 (0.25)",
    ),
]


@pytest.mark.parametrize(("path", "written", "known", "words"), SPREADS)
def test_what_is_written_is_what_is_drawn(path, written, known, words):
    found = distribution(MACHINE, path, written)
    values = known if isinstance(known, np.ndarray) else known.ppf(UNIT)
    np.testing.assert_allclose(found.at(UNIT), values, rtol=1e-9)
    assert found.words == words


BAD = [  # path, written, what is said of it
    ("system.hbm_bandwith", [1, 2], "no such field of System. Did you mean 'hbm_bandwidth'?"),
    ("system", [1, 2], "system: a record, not a number"),
    (MATRIX, [0.7, 1.2], "expected a finite number above 0 and at most 1, given 1.2"),
    (MATRIX, {"around": "50 %"}, "at most 1, given 1.2"),
    (MATRIX, [0.9, 0.7], "from 0.9 to 0.7; expected the lower end first"),
    (MATRIX, [0.7], "given 1 values"),
    (MATRIX, 0.7, "expected [low, high], or a table with from and to"),
    (MATRIX, {}, "expected [low, high], or a table with from and to"),
    (MATRIX, {"from": 0.7}, "to is missing"),
    (MATRIX, {"form": 0.7, "to": 0.9}, "form: no such key of a distribution. Did you mean 'from'?"),
    (MATRIX, {"from": 0.7, "to": 0.9, "weights": [1]}, "weights beside from"),
    (MATRIX, {"from": 0.7, "to": 0.9, "shape": "triangle"}, "Did you mean 'triangular'?"),
    (MATRIX, {"from": 0.7, "to": 0.9, "shape": "triangular"}, "peak is missing"),
    (MATRIX, {"from": 0.7, "to": 0.8, "shape": "triangular", "peak": 0.9}, "peak 0.9 is not"),
    (MATRIX, {"from": 0.7, "to": 0.9, "peak": 0.8}, "a uniform shape has no peak"),
    (MATRIX, {"values": [0.7, 0.8], "weights": [1.0, -0.5]},
     "at least 0, one of them above, given"),
    (MATRIX, {"values": [0.7, 0.8], "weights": [0, 0]}, "one of them above, given 0"),
    (MATRIX, {"values": [0.7, 0.8], "weights": [1]}, "1 of them for 2 values"),
    (MATRIX, {"values": "0.7"}, "values: expected a list, given '0.7'"),
    (MATRIX, {"values": []}, "values: expected a list, given []"),
    (MATRIX, {"mean": 0.8}, "deviation is missing"),
    (MATRIX, {"mean": 0.8, "deviation": -0.1}, "a deviation of at least 0, given -0.1"),
    (LAUNCH, {"around": -0.5}, "around: expected a share of at least 0"),
    (LAUNCH, ["2 GB", "3 GB"], "system.launch_latency.from: GB is not a time"),
    (LAUNCH, {"from": 0, "to": "3 us", "shape": "loguniform"}, "loguniform from 0"),
    ("system.torus_axes", {"around": "10 %"}, "around what is given, and nothing is"),
    ("system.fast_domain", [4, 8.5], "expected a whole number"),
    ("system.fast_domain", [4, 8], "takes whole numbers alone; expected a table with values"),
    ("system.nics", {"from": 1, "to": 4, "shape": ["a"]}, "no such shape here"),
    ("system.fast_domain", {"values": [4, 8]}, "so that it cannot be drawn"),
    ("model.layers", {"values": [96, 48]}, "so that it cannot be drawn"),
    ("precision.activation", [1, 2], "so that it cannot be drawn"),
]  # fmt: skip


@pytest.mark.parametrize(("path", "written", "words"), BAD)
def test_what_is_no_distribution_is_refused_in_a_line(path, written, words):
    line = refused(jr.uncertain, jr.published, MACHINE, distributions={path: written}, samples=4)
    assert words in line.replace("'GB'", "GB")
    assert path in line


ASKED = [
    ({"samples": 1000}, "samples: expected a power of two from 4 to 65,536, such as 512"),
    ({"samples": 2}, "samples: expected a power of two"),
    ({"samples": 8.0}, "samples: expected a whole number of at least 0, given 8.0"),
    ({"seed": "x"}, "seed: expected a whole number"),
    ({"distributions": {}}, "nothing is uncertain"),
    ({"axes": {"sample": {LAUNCH: [1e-6]}}}, "sample: the name of the draws"),
    ({"axes": {MATRIX: [0.7]}}, "on two axes"),
    ({"objective": "step_tim"}, "Did you mean 'step_time'?"),
]


@pytest.mark.parametrize(("options", "words"), ASKED)
def test_what_is_no_question_is_refused_in_a_line(options, words):
    with pytest.raises(jr.InputError, match=words):
        jr.uncertain(jr.published, MACHINE, **{"distributions": {MATRIX: [0.7, 0.9]}, **options})


# ---- A choice whose answer is known -------------------------------------------------------------


@jr.record
class Way:
    """What is chosen."""

    number: Number = jr.quantity("1", "Number of the way.", whole=True)


@jr.record
class Trip:
    """A way whose speed is uncertain, one that is sure, and one between them."""

    speed: Number = jr.quantity("1/s", "Speed of the first way.")
    room: Number = jr.quantity("B", "What a way may need.")
    plan: Way | None = None


@jr.record
class Arrival:
    """When one arrives, and what it needs."""

    time: Number = jr.quantity("s", "Time of the trip.")
    speed_made: Number = jr.quantity("1/s", "Its inverse.", better="higher")
    need: Number = jr.quantity("B", "What the way needs.")


def travel(trip, recipe):
    fast, sure = 4.0 / trip.speed, 2.0 + 0.0 * trip.speed
    number = trip.plan.number
    between = 1.01 * jnp.sqrt(fast * sure)
    time = jnp.where(number == 1.0, fast, jnp.where(number == 2.0, sure, between))
    return Arrival(time=time, speed_made=1.0 / time, need=4.0 - number)


trips = jr.Estimator(
    step=travel,
    inputs=Trip,
    plan=Way,
    candidates=lambda trip, recipe: Candidates({"number": np.array([1, 2, 3])}, {}),
    objective="time",
    need="need",
    limit=lambda trip: trip.room,
    name="trips",
)
DRAWS = 1024  # one program for all
TRIP, SPEED = Trip(speed=1.5, room=3.0), {"speed": [1.0, 3.0]}


def test_probabilities_and_costs_are_those_by_hand():
    """Way 1 takes 4 / speed and way 2 takes 2: way 1 is best from speed 2 on."""
    found = jr.uncertain(trips, TRIP, distributions=SPEED, samples=DRAWS).set_index(
        candidate="number"
    )
    assert set(found.candidate.values) == {1, 2, 3}
    chance = found.probability.sel(candidate=[1, 2, 3]).values
    np.testing.assert_allclose(chance, [0.5, 0.5, 0.0], atol=1e-3)
    mean = found.regret_mean.sel(candidate=[1, 2]).values
    np.testing.assert_allclose(mean, [math.log(2.0) - 0.5, 0.125], rtol=5e-3)
    worst = found.regret_worst.sel(candidate=[1, 2]).values
    np.testing.assert_allclose(worst, [20.0 * math.log(1.1) - 1.0, 0.475], rtol=5e-3)
    np.testing.assert_allclose(found["time"], [4 / 2.9, 1.6, 2.0, 2.0, 2.0], rtol=5e-3)
    np.testing.assert_allclose(found.time_kept, 2.0)
    assert (int(found.plans_best), float(found.feasible_share)) == (2, 1.0)
    assert float(found.sobol_first[0]) == pytest.approx(1.0, abs=0.02)
    assert float(found.sobol_total[0]) == pytest.approx(1.0, abs=0.02)


def test_knowing_the_only_input_saves_what_commitment_costs():
    found = jr.uncertain(trips, TRIP, distributions={**SPEED, "room": [3.0, 4.0]}, samples=DRAWS)
    assert numbers(found, "committed") == [2]
    np.testing.assert_allclose(found.saved_if_known, [0.125, 0.0], atol=2e-3)


def numbers(found: xr.Dataset, *names: str) -> list[int]:
    """Return the numbers of the ways that some candidates are."""
    places = [int(found[f"candidate_{name}"]) for name in names]
    return [int(found.number.sel(candidate=place)) if place > 0 else -1 for place in places]


def test_one_commits_to_what_costs_least():
    """To the sure way here; to the third, which is best in no draw, where the others are far."""
    found = jr.uncertain(trips, TRIP, distributions=SPEED, samples=DRAWS)
    assert numbers(found, "today", "committed") == [2, 2]
    far = {"speed": {"values": [1.0, 4.0]}}
    wide = jr.uncertain(trips, TRIP, distributions=far, samples=DRAWS, top=1)
    assert numbers(wide, "today", "committed") == [2, 3]
    assert wide.probability.values.tolist() == [0.5, 0.5, 0.0]
    costs = [0.5, 0.5, 1.01 * math.sqrt(2.0) - 1.0]
    np.testing.assert_allclose(wide.regret_mean, costs, rtol=1e-9)


def test_a_result_that_is_better_higher_costs_what_is_lost():
    found = jr.uncertain(trips, TRIP, distributions=SPEED, samples=DRAWS, objective="speed_made")
    told = found.set_index(candidate="number")
    np.testing.assert_allclose(told.probability.sel(candidate=[1, 2]), [0.5, 0.5], atol=0.01)
    lost = told.regret_mean.sel(candidate=2)
    assert float(lost) == pytest.approx(0.5 * (1.0 - 2.0 * math.log(1.5)), rel=0.02)


def test_draws_that_nothing_fits_are_told_and_left_out():
    spread = {**SPEED, "room": {"values": [0.5, 2.0, 3.0], "weights": [1, 1, 2]}}
    found = jr.uncertain(trips, TRIP, distributions=spread, samples=DRAWS)
    assert float(found.feasible_share) == pytest.approx(0.75, abs=1e-3)
    assert float(found.probability.sum()) == pytest.approx(1.0, abs=1e-12)
    told = found.set_index(candidate="number")
    np.testing.assert_allclose(told.fits.sel(candidate=[1, 2, 3]), [2 / 3, 1.0, 1.0], atol=1e-3)
    chance = told.probability.sel(candidate=[1, 2, 3])
    np.testing.assert_allclose(chance, [1 / 3, 0.5067, 0.16], atol=2e-3)
    assert np.isnan(found.sobol_total).all()
    assert np.isnan(found.time_drawn.values[found.candidate_drawn.values == -1]).all()
    assert "No plan fits in 25 % of the draws" in " ".join(views.sentences(found))
    none = jr.uncertain(trips, TRIP, distributions={**SPEED, "room": [0.1, 0.2]}, samples=DRAWS)
    assert (float(none.feasible_share), int(none.candidate_committed)) == (0.0, -1)
    assert np.isnan(none["time"]).all()
    assert np.isnan(none.probability).all()


def test_what_is_certain_has_no_width():
    found = jr.uncertain(
        trips, TRIP, distributions={"speed": [1.7, 1.7], "room": [3, 3]}, samples=DRAWS
    )
    assert np.ptp(found["time"].values) == 0.0
    assert float(found.time_deviation) == pytest.approx(0.0, abs=1e-15)
    assert found.sobol_total.values.tolist() == found.sobol_first.values.tolist() == [0.0, 0.0]
    assert found.probability.values[0] == 1.0


def test_equal_seeds_draw_the_same():
    first, again, other = (
        jr.uncertain(trips, TRIP, distributions=SPEED, samples=DRAWS, seed=seed)
        for seed in (3, 3, 4)
    )
    xr.testing.assert_identical(first, again)
    assert not np.array_equal(first.parameter_drawn, other.parameter_drawn)


def test_a_plan_of_ones_own_has_bands_alone():
    asked = dataclasses.replace(TRIP, plan=Way(number=1.0))
    found = jr.uncertain(trips, asked, distributions=SPEED, samples=DRAWS, objective="time")
    quantiles = 4.0 / (3.0 - 2.0 * found["quantile"])
    np.testing.assert_allclose(found["time"], quantiles, rtol=5e-3)
    assert [axes.get_xlabel() for axes in plots.draw(found).axes] == [
        "time [s]",
        "share of the variance [%]",
    ]
    with pytest.raises(jr.InputError, match="where: no plan is chosen"):
        jr.uncertain(trips, asked, distributions=SPEED, where="number=1")


# ---- The training step, against every plan in every draw ----------------------------------------

SPREAD = {
    MATRIX: [0.3, 1.0],
    "system.slow_bandwidth": {"around": "90 %"},
    "system.hbm_capacity": {"from": "60 GB", "to": "160 GB"},
}


def test_a_search_of_all_draws_is_every_plan_in_every_draw():
    found = jr.uncertain(
        jr.published, MACHINE, distributions=SPREAD, samples=16, split="1d", top=99
    )
    every = jr.survey(jr.published, MACHINE, split="1d")
    fields = [f.name for f in dataclasses.fields(jr.Plan)]
    columns = {f: np.tile(every[f].values.astype(float), 16) for f in fields}
    asked = dataclasses.replace(MACHINE, plan=jr.Plan(**columns))
    for path, drawn in zip(SPREAD, found.parameter_drawn.values, strict=True):
        asked = replace_at(asked, path, np.repeat(drawn, every.sizes["plan"]))
    recipe = dataclasses.replace(jr.published.recipe, split=jr.Split.ONE_D)
    report = evaluate_points(jr.published, recipe, asked)
    time, need, fits = (report[n].reshape(16, -1) for n in ("step_time", "memory", "feasible"))
    within, places = np.where(fits, time, FAR), np.arange(fits.shape[1])
    best = np.array([ranked(*row, places)[0] for row in zip(within, need, strict=True)])
    np.testing.assert_allclose(found.step_time_drawn, time[np.arange(16), best], rtol=1e-12)
    winner = found.isel(candidate=found.candidate_drawn.values - 1)
    for field in fields:
        assert winner[field].values.tolist() == every[field].values[best].tolist()
    same = found[fields].to_dataframe()[fields].values
    table = every[fields].to_dataframe()[fields].values
    place = [int(np.flatnonzero((table == plan).all(axis=1))[0]) for plan in same]
    cost = np.where(fits, time / time[np.arange(16), best][:, None] - 1.0, np.nan)[:, place]
    np.testing.assert_allclose(found.regret_worst, np.nanmax(cost, axis=0), atol=1e-12)
    np.testing.assert_allclose(found.regret_mean, np.nanmean(cost, axis=0), atol=1e-12)
    np.testing.assert_allclose(found.fits, fits[:, place].mean(axis=0))
    always = (time / time[np.arange(16), best][:, None] - 1.0)[:, fits.all(axis=0)].mean(axis=0)
    committed = found.sel(candidate=int(found.candidate_committed))
    assert float(committed.regret_mean) == pytest.approx(always.min(), abs=1e-12)
    assert float(found.probability.sum()) == pytest.approx(1.0)
    low, *_, high = found.step_time.values
    assert found.step_time_drawn.min() <= low <= high <= found.step_time_drawn.max()
    there = np.isfinite(found.step_time_kept_drawn.values)
    kept = found.step_time_kept_drawn.values[there]
    assert np.all(kept >= found.step_time_drawn.values[there] * (1 - 1e-12))


# ---- Tables, sentences, files and pictures ------------------------------------------------------

TABLE = """
samples = 16
[distributions]
"system.matrix_efficiency" = [0.3, 1.0]
"system.slow_bandwidth" = { around = "90 %" }
"system.hbm_capacity" = { from = "60 GB", to = "160 GB" }
"""
COMMAND = (
    "search --estimator published --model gpt3 --system a100-nvs4 --batch 64 --uncertain table.toml"
)


@pytest.fixture
def asked(jaxroof, tmp_path):
    """Run a search in the draws of a table."""

    def run(line: str, text: str = TABLE):
        (tmp_path / "table.toml").write_text(text, encoding="utf-8")
        return jaxroof(f"{COMMAND} {line}")

    return run


def test_one_size_is_told_and_written(asked):
    said = asked("--gpus 64 -o draws.nc --top 3")
    assert said.code == 0, said.err
    found = jr.read("draws.nc")
    for words in (
        "90 % of the 16 draws",
        "Measure system.",
        "cost %, worst",
    ):
        assert words in said.words
    assert f"Commit to plan {int(found.candidate_committed)}, dp " in said.words
    best = found.isel(candidate=0)
    assert f"{100 * float(best.probability):.3g}" in said.words
    assert [str(p) in said.out for p in found.parameter.values] == [True] * 3
    again = jr.uncertain(jr.published, MACHINE, distributions=SPREAD, samples=16, split="1d")
    np.testing.assert_array_equal(found.step_time, again.step_time)
    for kind in ("csv", "json", "zarr"):
        name = f"draws.{kind}"
        data = views.columns(found) if kind == "csv" else found
        jr.write(data, name)
        back = jr.read(name)
        if kind == "csv":
            assert back.sizes == {"row": found.sizes["candidate"]}
            assert back["step_time_95"].values[0] == found.step_time.values[-1]
            assert f"sobol_total_{MATRIX}" in back
        else:
            np.testing.assert_array_equal(back.regret_mean, found.regret_mean)
    figure = plots.draw(found)
    spread, plans, inputs = figure.axes
    assert spread.get_xlabel() == "step time [s]"
    assert len(plans.patches) == min(4, found.sizes["candidate"])
    assert {label.get_text().replace("\n", " ") for label in inputs.get_yticklabels()} == {
        "matrix efficiency",
        "network bandwidth",
        "HBM capacity",
    }


def test_several_sizes_have_bands_along_them(asked):
    said = asked("--gpus 128,64 -o bands.csv")
    assert said.code == 0, said.err
    rows = jr.read("bands.csv")
    assert set(rows.gpus.values) == {64, 128}
    assert "step_time_kept_50" in rows
    assert "To commit to a plan now costs most on" in said.words
    data = jr.uncertain(
        jr.published,
        MACHINE,
        distributions=SPREAD,
        samples=16,
        split="1d",
        axes={"gpus": [128, 64]},
    )
    figure = plots.draw(data)
    spread = figure.axes[0]
    assert spread.get_xlabel() == "accelerators"
    median = next(line for line in spread.lines if str(line.get_label()).startswith("median"))
    assert median.get_ydata().tolist() == data["step_time"].values[::-1, 2].tolist()
    assert len(views.columns(data).data_vars) > 20
    with pytest.raises(jr.InputError, match="bands: needs the dimension 'quantile'"):
        plots.draw(xr.Dataset({"step_time": 1.0}), "bands")


REFUSED = [  # options, table, what is said
    ("--mine tp=8", TABLE, "--mine: not with --uncertain"),
    ("-o draws.xlsx", TABLE, "draws.xlsx: cannot tell the kind of file"),
    ("--objective tim", TABLE, "objective"),
    ("", "samples = 16", "table.toml: distributions: nothing is there"),
    ("", "sample = 16", "table.toml: sample: no such key of a table of uncertain inputs. Did you"),
    ("", "samples = ", "table.toml: not valid TOML"),
    ("", TABLE.replace("16", "1000"), "table.toml: samples: expected a power of two"),
    ("", TABLE.replace("hbm_capacity", "hbm_capcity"), "Did you mean 'hbm_capacity'?"),
    ("", TABLE.replace("60 GB", "60 GB/s"), "table.toml: system.hbm_capacity.from: 'GB/s' is not"),
]


@pytest.mark.parametrize(("options", "table", "words"), REFUSED)
def test_bad_tables_are_refused_in_a_line(asked, options, table, words):
    said = asked(f"--gpus 64 {options}", table)
    assert said.code == 2
    assert said.err.startswith("jaxroof: ")
    assert said.err.count("\n") == 1
    assert words in said.err


def test_where_nothing_fits_the_status_says_so(asked, tmp_path):
    said = asked("--gpus 64 -o none.png", TABLE.replace("60 GB", "1 GB").replace("160 GB", "2 GB"))
    assert said.code == 1
    assert "No plan fits in any draw." in said.words
    assert (tmp_path / "none.png").stat().st_size > 10_000


@pytest.mark.parametrize("path", EXAMPLES, ids=lambda path: path.stem)
def test_the_tables_of_the_tree_are_distributions(path):
    from jaxroof.config.toml_reader import read_uncertain

    written = read_uncertain(path)["distributions"]
    inputs = dataclasses.replace(MACHINE, system=jr.training_system("b200-nvs8"))
    if path.stem == "whole_run":
        inputs = estimator("whole_run").example()
    for name, one in written.items():
        assert np.all(np.diff(distribution(inputs, name, one).at(UNIT)) >= 0)
