"""What binds a step: seconds that sum, turns where they are said, and what people read of it."""

import dataclasses
import functools
import json
import math
import re

import numpy as np
import pytest
import xarray as xr

import jaxroof as jr
from jaxroof.analyses.explain import (
    Explanation,
    Task,
    explain,
    explanation_of,
    limit_turns,
    limits_of,
    plans_at,
)
from jaxroof.analyses.result_metadata import resources, shares
from jaxroof.engine.grid.dataset import roles
from jaxroof.engine.sensitivity import switches
from jaxroof.engine.sensitivity.derivatives import slopes
from jaxroof.engine.sensitivity.elasticities import default_parameters
from jaxroof.errors import InputError
from jaxroof.estimators.published.details import layer_reports
from jaxroof.records import checked, get_at, replace_at
from jaxroof.views import plots
from jaxroof.views.plots.tornado import COLOURS
from jaxroof.views.text.explain import (
    explain_sentences,
    parameter_rows,
    percent,
    range_words,
    slopes_table,
    with_capacity,
)

GPUS, BATCH = 64, 256
PLANS = {  # of each split, with slow and fast links in use and syncs that show
    "1d": {"data": 8, "tensor": 4, "pipeline": 2, "microbatch": 2, "fast_tensor": 4},
    "context": {
        "data": 4, "tensor": 2, "context": 4, "pipeline": 2, "microbatch": 1, "fast_context": 2,
        "fast_data": 2,
    },
    "summa": {
        "data": 2, "tensor": 4, "context": 4, "pipeline": 2, "microbatch": 1, "panels": 4,
        "fast_tensor": 2, "fast_pipeline": 2,
    },
}  # fmt: skip
EVERY = [
    (split.value, kind.value)
    for split in jr.Split
    for kind in jr.Attention
    if (kind is not jr.Attention.PANELS or split is jr.Split.SUMMA)
]


def inputs(plan: dict[str, int] | None = None, **changed: float) -> jr.Inputs:
    """Return GPT-3 on 64 H200, under a plan or not."""
    known = {"model": jr.model("gpt3"), "system": jr.system("h200-nvs4", **changed)}
    fast = dict.fromkeys(jr.published.placement, 1.0)
    own = jr.Plan(**fast | {field: float(n) for field, n in plan.items()}) if plan else None
    return checked(jr.Inputs(**known, gpus=float(GPUS), global_batch=float(BATCH), plan=own))


KNOWN = resources(roles(jr.published, inputs(), jr.Recipe())["resources"])


def recipe(split: str, attention: str) -> jr.Recipe:
    return jr.Recipe(split=jr.Split(split), attention=jr.Attention(attention))


@functools.cache
def found() -> Explanation:
    return explain(inputs())


# ---- What adds to a step ------------------------------------------------------------------------


@pytest.mark.parametrize(("split", "attention"), EVERY)
def test_every_second_of_a_step_has_an_operation_and_a_limit(split, attention):
    """Limits sum to each row, rows to the step, and are those of the step's elasticities."""
    asked, choices = inputs(PLANS[split]), recipe(split, attention)
    names, times, seconds = limits_of(jr.published, asked, choices)
    paths = [path for path in default_parameters(jr.published, asked) if path in KNOWN.signs]
    value, along = slopes(jr.published, choices, asked, paths, "step_time")
    step, told = float(value[0]), xr.DataArray(along[0] / value[0], {"parameter": paths})
    assert list(layer_reports(asked, choices)) == [
        name.removesuffix(" forward") for name in names if name.endswith(" forward")
    ]
    np.testing.assert_allclose(seconds[0].sum(axis=1), times[0], rtol=1e-12, atol=1e-14 * step)
    assert math.fsum(times[0]) == pytest.approx(step, rel=1e-12)
    assert math.fsum(seconds[0].ravel()) == pytest.approx(step, rel=1e-12)
    limits = seconds[0].sum(axis=0) / step
    np.testing.assert_allclose(limits, shares(told, KNOWN), atol=1e-12)


def test_a_second_more_of_latency_is_a_second_more_of_the_step():
    """By hand: the gain of a fused attention, bound by arithmetic, is launched once a run."""
    asked = inputs(PLANS["1d"])
    names, _, seconds = limits_of(jr.published, asked, jr.Recipe())
    runs = 48 * BATCH / (8 * 2)  # layers of a stage x microbatches
    row = seconds[0][names.index("fusedla forward")]
    assert row[list(KNOWN.limits).index("latency")] == pytest.approx(20e-6 * runs, rel=1e-12)


def test_columns_of_inputs_are_points():
    asked = inputs(PLANS["1d"])
    some = replace_at(asked, "system.hbm_bandwidth", asked.system.hbm_bandwidth * np.ones(3))
    *_, one = limits_of(jr.published, asked, jr.Recipe())
    *_, several = limits_of(jr.published, some, jr.Recipe())
    assert one.shape[0] == 1
    np.testing.assert_allclose(several, np.repeat(one, 3, axis=0), rtol=1e-13)


def test_every_rate_and_latency_of_the_machine_is_of_a_resource():
    for path in default_parameters(jr.published, inputs()):
        assert path in KNOWN.of, path
    assert set(KNOWN.signs) <= set(KNOWN.of)
    assert set(map(KNOWN.of.get, KNOWN.signs)) == set(KNOWN.limits)


# ---- One explanation ----------------------------------------------------------------------------


def best_at(path: str, factor: float) -> jr.Inputs:
    """Return the inputs with the best of all plans that fit at a factor of a parameter."""
    asked = replace_at(inputs(), path, get_at(inputs(), path) * factor)
    data = jr.survey(jr.published, asked)
    held = np.where(data.feasible, data.step_time, np.inf)
    best = data.isel(plan=int(held.argmin()))
    plan = jr.Plan(**{f: np.float64(best[f]) for f in jr.published.plan_fields})
    return dataclasses.replace(asked, plan=plan)


def binding_at(path: str, factor: float) -> str:
    *_, seconds = limits_of(jr.published, best_at(path, factor), jr.Recipe())
    return list(KNOWN.limits)[int(seconds[0].sum(axis=0).argmax())]


def test_the_best_plan_is_the_one_that_a_search_finds():
    asked = best_at("system.nics", 1.0)
    for field in jr.published.plan_fields:
        assert float(found().best[field]) == float(getattr(asked.plan, field))
    step = float(found().best.step_time)
    assert step == pytest.approx(float(jr.published.evaluate(asked).step_time), rel=1e-12)
    assert sum(found().limits.values()) == pytest.approx(step, rel=1e-12)


def test_what_binds_changes_where_it_is_said_to():
    turns, first = found().turns, next(iter(found().limits))
    assert turns.sizes["turn"] >= 2
    for i in range(min(3, turns.sizes["turn"])):
        turn = turns.isel(turn=i)
        path, at = str(turn.turn_parameter.values), float(turn.turn_factor)
        beyond = 1.0002 if at > 1.0 else 1 / 1.0002
        assert binding_at(path, at / beyond) == first
        assert binding_at(path, at * beyond) == str(turn.turn_limit.values)
        assert float(turn.turn_value) == pytest.approx(at * float(get_at(inputs(), path)))


def test_plans_between_switches_are_those_that_took_over_last():
    columns = {f: np.arange(10.0, 14.0) for f in jr.published.plan_fields}
    moved = xr.Dataset(
        {
            "switch_parameter": ("switch", ["p", "p", "p", "q"]),
            "switch_factor": ("switch", [1.5, 0.5, 3.0, 1.1]),
            "switch_order": ("switch", [1, 1, 2, 1]),
            **{f"switch_{f}": ("switch", column) for f, column in columns.items()},
        }
    )
    asked = inputs(PLANS["1d"])
    plans = plans_at(asked, moved, "p", np.array([0.2, 0.5, 0.9, 1.0, 1.2, 1.5, 2.0, 8.0]))
    assert plans["data"].tolist() == [11, 11, 8, 8, 8, 10, 10, 12]
    assert plans_at(asked, moved, "r", np.array([0.2, 8.0]))["data"].tolist() == [8, 8]


def test_a_limit_that_binds_for_a_thousandth_before_a_switch_is_found(monkeypatch):
    path, short = "system.hbm_bandwidth", (0.4431, 0.4436)
    moved = xr.Dataset(
        {"switch_parameter": ("switch", [path, path]), "switch_factor": ("switch", [short[0], 3.0])}
    ).assign_coords(factor=[1 / 16, 1.0, 16.0], parameter=[path])

    def tops(*asked):
        (*_, ways) = asked
        inside = [(way.factors > short[0]) & (way.factors < short[1]) for way in ways]
        return [np.where(some, 1, 0) for some in inside]

    monkeypatch.setattr("jaxroof.analyses.explain._tops", tops)
    task = Task(jr.published, inputs(), jr.Recipe(), KNOWN)
    turns = limit_turns(task, inputs(), moved, np.array([1.0, 0.0]), there=True)
    assert turns.turn_factor.values == pytest.approx([short[1]], rel=1e-4)
    assert turns.turn_limit.values.tolist() == [list(KNOWN.limits)[1]]


def test_sentences_say_which_resource_binds_by_how_much_and_where_that_changes():
    binds, turns, capacity, nearest = explain_sentences(found())
    first, *_ = found().limits
    share = 100 * found().limits[first] / float(found().best.step_time)
    assert binds.startswith(f"What binds: {KNOWN.limits[first]}, {share:.3g} % of the ")
    factor = float(found().turns.turn_factor[0])
    there = f"{factor:.3g} times" if factor > 1.0 else f"{100 * factor:.3g} % of"
    assert f"({there} today's)" in turns
    assert "becomes the bottleneck if" in turns
    up = found().steps.isel(step=int(np.flatnonzero(found().steps.place == 1)[0]))
    assert f"(+{float(up.change) / 1e9:.3g} GB)" in capacity
    assert "This plan is the best until the " in nearest


def test_what_one_percent_buys_is_told_by_the_side_that_it_is_on():
    tied = found().elasticities.copy(deep=True)
    at = tied.parameter == "system.matrix_flops"
    assert next(iter(found().limits)) == "compute"
    tied["elasticity"] = tied.elasticity.where(~at, -0.25)
    vector = float(tied.elasticity.sel(parameter="system.vector_flops"))
    binds, *_ = explain_sentences(dataclasses.replace(found(), elasticities=tied))
    assert f"1 % more compute makes the step {percent((0.25 - vector) / 100)} shorter" in binds


def test_a_step_of_the_staircase_close_by_is_told_apart_from_today_s():
    steps = found().steps.copy(deep=True)
    here, above = (int(np.flatnonzero(steps.place == place)[0]) for place in (0, 1))
    own = float(steps["value"][here] - steps.change[here])
    steps["value"][above], steps["change"][above] = own + 129e6, 129e6
    steps["value"][here], steps["change"][here] = own, 0.0
    *_, capacity, _ = explain_sentences(dataclasses.replace(found(), steps=steps))
    assert "buys nothing until 141.1 GB (+129 MB), where" in capacity
    assert "Any less makes the step" in capacity


def test_a_plan_that_ties_where_its_reign_ends_is_not_said_to_save_nothing():
    moved = found().response.copy(deep=True)
    moved["switch_gain"][:] = 0.0
    *_, nearest = explain_sentences(dataclasses.replace(found(), response=moved))
    assert "It is as fast as this one" in nearest
    assert " 0 %" not in nearest


def test_a_short_reign_has_ends_that_read_apart():
    row = xr.Dataset({"switch_factor": 0.11142, "switch_until": 0.11138})
    assert range_words(row) == ("0.11142", "0.11138")
    assert range_words(row.assign(switch_until=0.0625)) == ("0.111", "0.0625")


def test_bars_are_drawn_the_largest_first_and_ties_to_both_sides():
    told = found().elasticities
    sizes = [abs(float(row.elasticity)) for _, row in parameter_rows(told)]
    assert sizes == sorted(sizes, reverse=True)
    assert all(path.startswith("system.") for path, _ in parameter_rows(told))
    tied = told.copy(deep=True)
    tied["tie"][0], tied["elasticity_below"][0] = True, -0.25
    slope, share = (list(slopes_table(tied).columns[n].cells) for n in (2, 3))
    assert any("(1 % less: +0.25 %)" in str(cell) for cell in slope)
    assert any("\nto 25 %" in str(cell) for cell in share)


# ---- The command --------------------------------------------------------------------------------

ASK = f"explain --estimator published --model gpt3 --system h200-nvs4 --gpus {GPUS} --batch {BATCH}"


def test_the_command_prints_bars_limits_switches_and_steps(jaxroof):
    said = jaxroof(f"{ASK} --verbose")
    assert said.code == 0, said.err
    for words in ("What binds:", "becomes the bottleneck", "matrix_flops", "bubble", "bound by"):
        assert words in said.out
    assert "The next plan on each axis" in said.out
    assert "HBM capacity, step by step" in said.out
    assert "(a relaxation)" in said.out


def test_its_parts_sum_to_the_step():
    told = found()
    slopes = told.elasticities.elasticity
    machine = {str(p) for p in told.elasticities.parameter.values if str(p).startswith("system.")}
    assert machine == {*default_parameters(jr.published, inputs())}
    shared = [sign * float(slopes.sel(parameter=p)) for p, sign in KNOWN.signs.items()]
    assert sum(shared) == pytest.approx(1.0, rel=1e-12)
    assert {"model.hidden", "model.sequence", "global_batch", "plan.tensor"} <= {
        *told.elasticities.parameter.values[told.elasticities.relaxed.values].tolist()
    }
    time = float(told.best.step_time)
    assert math.fsum(told.operations.seconds.values.ravel()) == pytest.approx(time, rel=1e-12)
    assert math.fsum(told.limits.values()) == pytest.approx(time, rel=1e-12)
    for i in range(told.response.sizes["switch"]):
        switch = told.response.isel(switch=i)
        today = float(get_at(inputs(), str(switch.switch_parameter.values)))
        assert float(switch.switch_value) == pytest.approx(float(switch.switch_factor) * today)
    here = told.steps.isel(step=told.steps.place.values == 0)
    assert float(here.gain[0]) == 0.0
    assert all(int(here[f][0]) == int(told.best[f]) for f in ("data", "tensor", "pipeline"))


def test_where_nothing_fits_it_says_what_is_missing(jaxroof):
    less = f"{ASK} --set system.hbm_capacity='1 GB'"
    said = jaxroof(less)
    assert said.code == 1
    assert "No plan fits: the leanest needs" in said.words
    assert jaxroof(f"{less} -o none.json").code == 1
    told = explanation_of(jr.read("none.json"))
    assert not told.feasible
    assert not told.elasticities.sizes["parameter"]
    assert not told.response.sizes["switch"]
    assert int(told.steps.place[0]) == 1
    assert np.isnan(float(told.steps.gain[0]))


REFUSED = [
    ("--span 1", "expected a factor above 1"),
    ("--set system.hbm_bandwith=1", "Did you mean 'system.hbm_bandwidth'?"),
    ("-o said.csv", "expected a name that ends in .png, .svg, .pdf, .json"),
]


@pytest.mark.parametrize(("wrong", "words"), REFUSED)
def test_bad_input_is_refused_in_one_line(jaxroof, wrong, words):
    said = jaxroof(f"{ASK} {wrong}")
    assert said.code == 2
    assert words in said.err
    assert said.err.count("\n") == 1


# ---- The pictures -------------------------------------------------------------------------------


def test_a_tornado_has_a_bar_to_either_side_of_what_changes(jaxroof):
    assert jaxroof(f"{ASK} -o tornado.png").code == 0
    axes = plots.draw(with_capacity(found().response, found().steps)).axes[0]
    names = [label.get_text() for label in axes.get_yticklabels()]
    assert {"compute rate", "HBM capacity"} <= set(names)
    axes = plots.draw(found().elasticities).axes[0]
    widest = max(abs(bar.get_width()) for bar in axes.patches)
    assert widest == pytest.approx(float(np.abs(found().elasticities.elasticity).max()), rel=1e-9)


def test_a_map_shows_which_resource_binds_and_where_the_plan_changes():
    """Two fields of a machine, of which one binds below the diagonal and the other above it."""
    hbm, flops = np.geomspace(1e12, 8e12, 4), np.geomspace(1e14, 8e14, 4)
    half = np.where(np.arange(4)[:, None] > np.arange(4), -0.7, -0.3)
    plan = np.where(np.arange(4) > 1, 2, 1) * np.ones((4, 1), int)
    data = xr.Dataset(
        {
            "elasticity": (
                ("hbm_bandwidth", "matrix_flops", "parameter"),
                np.stack([half, -1.0 - half], axis=-1),
            ),
            "step_time": (("hbm_bandwidth", "matrix_flops"), np.ones((4, 4))),
            "feasible": (("hbm_bandwidth", "matrix_flops"), np.ones((4, 4), bool)),
            "tensor": (("hbm_bandwidth", "matrix_flops"), plan),
            "pipeline": (("hbm_bandwidth", "matrix_flops"), plan),
        },
        {
            "hbm_bandwidth": ("hbm_bandwidth", hbm, {"units": "B/s"}),
            "matrix_flops": ("matrix_flops", flops, {"units": "FLOP/s"}),
            "parameter": ["system.matrix_flops", "system.hbm_bandwidth"],
        },
        {"roles": json.dumps(roles(jr.published, inputs(), jr.Recipe()))},
    )
    made = plots.draw(data)
    drawn_map, lines = made.axes[0].collections
    assert sorted(set(drawn_map.get_array().ravel().tolist())) == [0.0, 1.0]
    assert len(lines.get_segments()) == 4
    said = {text.get_text() for text in made.legends[0].get_texts()}
    assert {one for one in said if "plan" not in one} == {
        KNOWN.limits["compute"],
        KNOWN.limits["hbm"],
    }
    with pytest.raises(InputError, match="needs two axes of numbers"):
        plots.draw(data.isel(hbm_bandwidth=0), "binds")


def test_resources_have_colours_of_their_own():
    assert set(KNOWN.limits) < set(COLOURS)
    assert len(set(COLOURS.values())) == len(COLOURS)


def test_an_explanation_prints_as_one_line_of_shares():
    said = repr(found())
    shares = [float(share) for share in re.findall(r" (\d\.\d+)", said)]
    assert said.startswith("Explanation(limits by share: ")
    assert sum(shares) == pytest.approx(1.0, abs=0.01)
    assert "\n" not in said


def test_what_is_left_open_is_said(jaxroof, monkeypatch):
    monkeypatch.setattr(switches, "CELLS", 0)
    asked = "explain --estimator published --model gpt3 --system h200-nvs4 --gpus 64 --batch 64"
    said = jaxroof(asked)
    assert re.search(r"so close in \d+ narrow ranges of them that the search stopped", said.words)
    assert '"response.attrs": "{' in (told := jaxroof(f"{asked} --json").out)
    assert json.loads(json.loads(told)["attrs"]["response.attrs"])["switches_open"] > 0
