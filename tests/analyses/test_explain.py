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
    explain,
    explanation_dataset,
    explanation_of,
    limits_of,
)
from jaxroof.analyses.result_metadata import resources, shares
from jaxroof.engine.grid.dataset import roles
from jaxroof.engine.sensitivity import switches
from jaxroof.engine.sensitivity.derivatives import slopes
from jaxroof.engine.sensitivity.elasticities import default_parameters
from jaxroof.estimators.published.details import layer_reports
from jaxroof.records import checked, get_at, replace_at
from jaxroof.units import portion
from jaxroof.views import plots
from jaxroof.views.text.explain import (
    explain_sentences,
    parameter_rows,
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
    assert f"1 % more compute makes the step {portion((0.25 - vector) / 100)} shorter" in binds


def test_a_plan_that_ties_where_its_reign_ends_is_not_said_to_save_nothing():
    moved = found().response.copy(deep=True)
    moved["switch_gain"][:] = 0.0
    *_, nearest = explain_sentences(dataclasses.replace(found(), response=moved))
    assert "It is as fast as this one" in nearest
    assert " 0 %" not in nearest


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


def test_what_makes_a_step_longer_does_not_hide_what_makes_it_shorter():
    (axes,) = plots.draw(explanation_dataset(found(), "a step")).axes
    bars = [(bar.get_x() + bar.get_width()) for bar in axes.patches]
    assert max(bars) <= 1.25 * -min(bars) + 1e-9
    assert any(text.get_text().startswith("→ +") for text in axes.texts)


# ---- The command --------------------------------------------------------------------------------

ASK = f"explain --estimator published --model gpt3 --system h200-nvs4 --gpus {GPUS} --batch {BATCH}"


def test_the_command_prints_bars_limits_switches_and_steps(jaxroof):
    said = jaxroof(f"{ASK} --verbose")
    assert said.code == 0, said.err
    for words in ("What binds:", "becomes the bottleneck", "matrix_flops", "bubble", "bound by"):
        assert words in said.out
    assert "HBM capacity, step by step" in said.out


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


def test_what_is_left_open_is_said(jaxroof, monkeypatch):
    monkeypatch.setattr(switches, "CELLS", 0)
    asked = "explain --estimator published --model gpt3 --system h200-nvs4 --gpus 64 --batch 64"
    said = jaxroof(asked)
    assert re.search(r"so close in \d+ narrow ranges of them that the search stopped", said.words)
    assert '"response.attrs": "{' in (told := jaxroof(f"{asked} --json").out)
    assert json.loads(json.loads(told)["attrs"]["response.attrs"])["switches_open"] > 0
