"""What-if questions: systems and splits side by side, what more memory buys, plans of every split.

Staircases are checked against brute force and against the search, printed numbers against both.
"""

import dataclasses
import io
import re

import numpy as np
import pytest
import xarray as xr
from daily import daily
from hypothesis import given, settings
from hypothesis import strategies as st
from rich.console import Console

import jaxroof as jr
from jaxroof import units
from jaxroof.analyses.result_metadata import parts_of, words_of
from jaxroof.catalog.needs import training_capacities
from jaxroof.engine.search.cells import frontier_of
from jaxroof.engine.search.pareto import pareto
from jaxroof.views.text import pareto as stairs_views
from jaxroof.views.text import sweep as words
from jaxroof.views.text import tables
from jaxroof.views.text.plan import placement_words, plan_fields, plan_words

TIE = 1e-12
FIELDS = [f.name for f in dataclasses.fields(jr.Plan)]
PLACES = ["fast_tensor", "fast_context", "fast_data", "fast_pipeline"]
SPLITS = ["1d", "summa", "context"]
STUDY = "--estimator published --model gpt3"
MACHINE = f"{STUDY} --system a100-nvs4"
SMALL = f"{MACHINE} --gpus 64 --batch 64"


def question(system="a100-nvs4", **changes):
    asked = {"gpus": 64, "global_batch": 64, **changes}
    return jr.Inputs(model=jr.model("gpt3"), system=jr.system(system), **asked)


def printed(table) -> str:
    page = Console(width=200, record=True, file=io.StringIO())
    page.print(table)
    return page.export_text()


# ---- Staircases ---------------------------------------------------------------------------------


def answer(need, value, limit):
    """Return what a search answers under a limit: the least, ties to the leaner, the first."""
    fits = np.flatnonzero(need <= limit)
    least = value[fits].min()
    tied = fits[value[fits] <= least + TIE * abs(least)]
    return int(tied[np.lexsort((tied, need[tied]))][0])


numbers = st.integers(1, 12).map(float)


@given(st.lists(st.tuples(numbers, numbers), min_size=1, max_size=40))
@settings(max_examples=300, deadline=None)
def test_stairs_are_what_a_search_answers_at_some_limit(points):
    need, value = np.array(points).T
    every = {answer(need, value, limit) for limit in need}
    assert set(frontier_of(need, value).tolist()) == every


def test_ties_within_the_last_digits_go_to_the_leaner():
    need, value = np.array([1.0, 2.0, 3.0]), np.array([1.0 + 1e-13, 1.0, 0.9])
    assert frontier_of(need, value).tolist() == [0, 2]
    assert frontier_of(np.zeros(0), np.zeros(0)).tolist() == []


@pytest.mark.parametrize("split", ["1d", "summa"])
def test_a_staircase_answers_as_the_search_does_at_every_capacity(split):
    stairs = pareto(jr.published, question(), split=split)
    least, most = float(stairs.memory[0]), float(stairs.memory[-1])
    capacities = np.sort(
        np.concatenate([np.geomspace(least * 0.9, most * 1.1, 60), stairs.memory.values])
    )
    found = jr.search(
        jr.published, question(), split=split, axes={"system.hbm_capacity": capacities}
    )
    stair = np.searchsorted(stairs.memory.values, capacities, side="right") - 1
    np.testing.assert_array_equal(found.feasible.values, stair >= 0)
    for field in [*FIELDS, "step_time", "memory"]:
        expected = stairs[field].values[stair[stair >= 0]]
        values = found[field].values[stair >= 0]
        np.testing.assert_allclose(values, expected, rtol=1e-14, err_msg=field)


def test_a_staircase_marks_what_the_machine_holds():
    stairs = pareto(jr.published, question())
    np.testing.assert_array_equal(stairs.fits.values, stairs.memory.values <= 80e9)
    assert set(stairs.memory_limit.values) == {80e9}
    survey = jr.survey(jr.published, question())
    assert set(stairs.plans_legal.values) == {survey.sizes["plan"]}
    for name in stairs.data_vars:
        assert {"units", "long_name"} <= set(stairs[name].attrs), name


@pytest.mark.parametrize(("objective", "sign"), [("mfu", -1), ("throughput", -1), ("flops", 1)])
def test_any_objective_is_improved_in_its_own_direction(objective, sign):
    stairs = pareto(jr.published, question(), objective=objective)
    assert np.all(np.diff(sign * stairs[objective].values) < 0)
    survey = jr.survey(jr.published, question())
    best = (sign * survey[objective].values).min()
    assert sign * float(stairs[objective][-1]) == pytest.approx(best, rel=1e-12)


def test_axes_give_a_staircase_each_one_after_another():
    axes = {"gpus": [7, 32, 64], "split": ["1d", "context"], "system": ["a100-nvs4", "b200-nvs8"]}
    together = pareto(jr.published, question(), axes=axes, where="microbatch<=4")
    assert together.gpus.dtype == np.int64
    start = 0
    for gpus in axes["gpus"]:
        for split in axes["split"]:
            for name in axes["system"]:
                inputs = question(name, gpus=gpus)
                alone = pareto(jr.published, inputs, split=split, where="microbatch<=4")
                part = together.isel(step_number=slice(start, start + alone.sizes["step_number"]))
                start += alone.sizes["step_number"]
                assert set(part.gpus.values) <= {gpus}
                assert set(part.split.values) <= {split}
                assert set(part.system.values) <= {name}
                for variable in alone.data_vars:
                    np.testing.assert_array_equal(part[variable], alone[variable])
    assert together.sizes["step_number"] == start


def test_paths_that_move_together_give_a_staircase_a_point():
    axes = {"hbm": {"system.hbm_capacity": ["80 GB", "1 TB"], "system.hbm_bandwidth": [2e12, 8e12]}}
    stairs = pareto(jr.published, question(), axes=axes)
    assert set(stairs.hbm.values) == {0, 1}
    np.testing.assert_array_equal(stairs.hbm_capacity, stairs.memory_limit)
    np.testing.assert_array_equal(stairs.hbm_bandwidth, np.where(stairs.hbm == 0, 2e12, 8e12))


def test_no_legal_plan_is_a_staircase_without_stairs():
    stairs = pareto(jr.published, question(gpus=7))
    assert stairs.sizes["step_number"] == 0
    assert {*FIELDS, "memory", "step_time", "fits"} <= set(stairs.data_vars)


def test_an_estimator_whose_plans_need_nothing_has_no_staircase():
    free = dataclasses.replace(jr.published, need="", limit=None, name="free")
    with pytest.raises(jr.InputError, match="free: its plans need nothing; use search"):
        pareto(free, question())


def test_a_staircase_can_be_written_and_read(tmp_path):
    stairs = pareto(jr.published, question(), axes={"gpus": [32, 64]})
    for ending in ("nc", "json"):
        jr.write(stairs, tmp_path / f"stairs.{ending}")
        xr.testing.assert_identical(jr.read(tmp_path / f"stairs.{ending}"), stairs)


# ---- jaxroof pareto -----------------------------------------------------------------------------


def rows(text: str) -> list[list[str]]:
    """Return the cells of the lines below a table's rule."""
    lines = text.splitlines()
    rule = next(i for i, line in enumerate(lines) if set(line.strip()) == {"─"})
    below = [line.split() for line in lines[rule + 1 :]]
    return below[: next(i for i, cells in enumerate(below) if not cells)]


def test_pareto_prints_the_stairs_that_gain(jaxroof):
    stairs = pareto(jr.published, question())
    said = jaxroof(f"pareto {SMALL} --gain 0%")
    assert (said.code, said.err) == (0, "")
    found = rows(said.out)
    assert len(found) == stairs.sizes["step_number"]
    assert [row[0] for row in found] == [f"{value / 1e9:.4g}" for value in stairs.memory.values]
    assert [row[-2] for row in found] == ["yes" if fits else "no" for fits in stairs.fits.values]
    assert f"{len(found)} plans of {int(stairs.plans_legal[0]):,} are faster" in said.words
    assert "; all are shown." in said.words
    fewer = rows(jaxroof(f"pareto {SMALL} --gain 5%").out)
    assert len(fewer) < len(found)


def test_a_capacity_named_beside_the_stairs_is_of_a_system_that_can_train():
    """The a100-unfused has no latencies: a training step cannot be asked of it."""
    found = training_capacities()
    assert found["a100"] == 80e9
    assert "a100-unfused" not in found
    assert training_capacities(reported=True)["h100"] == float(jr.system("h100-nvs8").hbm_reported)


def test_pareto_says_where_it_flattens(jaxroof):
    stairs = pareto(jr.published, question())
    time = stairs.step_time.values
    flat = next(m for m, t in zip(stairs.memory.values, time, strict=True) if t < 1.01 * time[-1])
    said = jaxroof(f"pareto {SMALL}").words
    assert (
        f"Beyond {units.size(float(flat), 'B')}, no amount of memory makes the step 1 % faster."
        in said
    )
    own = stairs.isel(step_number=np.flatnonzero(stairs.fits.values)[-1])
    assert f"In 80 GB: {units.seconds(float(own.step_time))} a step" in said


def test_pareto_names_the_smallest_machine_that_trains_in_time(jaxroof):
    sizes = {n: pareto(jr.published, question(gpus=n)) for n in (16, 32, 64)}
    most = 0.5 * (float(sizes[16].training_days[-1]) + float(sizes[32].training_days[-1]))
    least = sizes[32].isel(step_number=int(np.argmax(sizes[32].training_days.values <= most)))
    said = jaxroof(f"pareto {MACHINE} --gpus 64,16,32 --batch 64 --days {most:.6f}")
    assert said.code == 0
    assert f": 32 accelerators with {units.size(float(least.memory), 'B')} each" in said.words
    assert f"{plan_words(least)} ({placement_words(least)})" in said.words
    assert re.search(
        r"No memory suffices for [\d.]+ days on 16 accelerators: the soonest takes [\d.,]+",
        said.words,
    )
    assert [row[0] for row in rows(said.out)] == ["64", "16", "32"]


def test_pareto_tells_the_memory_of_a_system_from_its_speed(jaxroof):
    said = jaxroof(f"pareto {MACHINE.replace('a100', 'h200')} --gpus 64 --batch 64 --days 1e6")
    assert "(a100 has 80 GB), at the rates of this machine;" in said.words
    assert "a100 holds" not in said.words
    assert "Every time is at the rates of this machine" in said.words
    vast = "model.hidden=196608"
    assert (
        "(none of the catalogue has as much), "
        in jaxroof(f"pareto {MACHINE} --gpus 64 --batch 64 --days 1e9 --set {vast}").words
    )


def test_pareto_of_several_sizes_has_a_row_each(jaxroof):
    said = jaxroof(f"pareto {MACHINE} --gpus 7,64 --batch 64")
    assert said.code == 0
    first, second = rows(said.out)
    assert first[:2] == ["7", "-"]
    stairs = pareto(jr.published, question())
    assert second[:2] == ["64", units.size(float(stairs.memory[0]), "B").split()[0]]
    assert "No plan is legal on 7 accelerators." in said.words


ENDS = [  # arguments, status, what is said
    (f"{SMALL} --set system.hbm_capacity='1 GB'", 1, "No plan fits in 1 GB: the leanest needs"),
    (f"{SMALL} --days 0.001", 1, "No memory suffices for 0.001 days on 64"),
    (f"{SMALL} --days 1e6", 0, "The smallest machine that trains this in 1e+06 days: 64"),
]


@pytest.mark.parametrize(("arguments", "status", "sentence"), ENDS)
def test_pareto_ends_with_one_where_nothing_does(arguments, status, sentence, jaxroof):
    said = jaxroof(f"pareto {arguments}")
    assert (said.code, said.err) == (status, "")
    assert sentence in said.words


def test_pareto_writes_every_stair(jaxroof, tmp_path):
    said = jaxroof(f"pareto {MACHINE} --gpus 32,64 --batch 64 --split context -o stairs.json")
    assert (said.code, said.err) == (0, "wrote stairs.json\n")
    data = jr.read(tmp_path / "stairs.json")
    expected = pareto(jr.published, question(), axes={"gpus": [32, 64]}, split="context")
    xr.testing.assert_equal(data, expected)


@pytest.mark.parametrize("gpus", daily(["64", "7,32,64"], 1))
def test_pareto_draws(gpus, jaxroof, tmp_path):
    pytest.importorskip("matplotlib")
    line = f"pareto {MACHINE} --gpus {gpus} --batch 64 -o stairs.png"
    assert jaxroof(line).err == "wrote stairs.png\n"
    assert (tmp_path / "stairs.png").read_bytes().startswith(b"\x89PNG")


def test_pareto_draws_nothing_where_no_plan_is_legal(jaxroof, tmp_path):
    pytest.importorskip("matplotlib")
    said = jaxroof(f"pareto {MACHINE} --gpus 7 --batch 64 -o stairs.png")
    assert (said.code, said.out) == (2, "")
    assert not list(tmp_path.iterdir())


# ---- jaxroof compare ----------------------------------------------------------------------------


def test_compare_finds_what_a_search_of_each_finds(jaxroof, tmp_path):
    systems = ["a100-nvs4", "b200-nvs8"]
    line = (
        "compare --estimator published "
        f"--model gpt3 --gpus 64 --batch 64 --system {','.join(systems)} -o best.json"
    )
    said = jaxroof(line)
    assert (said.code, said.err) == (0, "wrote best.json\n")
    data = jr.read(tmp_path / "best.json")
    assert data.sizes == {"system": 2, "split": 3}
    body = rows(said.out)
    axes = {"system": systems, "split": SPLITS}
    every = jr.search(jr.published, question(), axes=axes)
    stairs = pareto(jr.published, question(), axes=axes)
    fastest = float(data.step_time.min())
    for number, (name, split) in enumerate((n, s) for n in systems for s in SPLITS):
        alone = every.sel(system=name, split=split)
        held = (stairs.system == name) & (stairs.split == split) & stairs.fits
        assert float(alone.step_time) == pytest.approx(float(stairs.step_time[held][-1]), rel=1e-14)
        one = data.sel(system=name, split=split)
        for variable in alone.data_vars:
            np.testing.assert_allclose(
                one[variable].values, alone[variable].values, rtol=1e-14, err_msg=variable
            )
        time = float(alone.step_time)
        cells = [name, split, *units.seconds(time).split()]
        cells += [units.days(float(alone.training_days)), f"{time / fastest:.2f}"]
        assert body[number][: len(cells)] == cells
        assert f"{float(alone.throughput):.5g}" in body[number]
        assert placement_words(alone, PLACES) in body[number]


def test_compare_says_why(jaxroof):
    said = jaxroof(
        "compare --estimator published "
        "--model gpt3 --gpus 64 --batch 64 --system a100-nvs4 --split 1d,summa"
    )
    found = {split: jr.search(jr.published, question(), split=split) for split in ("1d", "summa")}
    best, after = sorted(found, key=lambda split: float(found[split].step_time))
    gap = float(found[after].step_time) - float(found[best].step_time)
    less = {
        p: float(found[after][p]) - float(found[best][p])
        for p in parts_of(found[best], "step_time")
    }
    most = max(less, key=lambda part: less[part])
    ratio = units.times(float(found[after].step_time) / float(found[best].step_time))
    assert f"On a100-nvs4, {best} is {ratio} as fast as the next, {after}: " in said.words
    amount = units.seconds(float(f"{less[most]:.3g}"))
    share = f"({100 * less[most] / gap:.0f} % of the difference)"
    part = words_of(found[best], most).replace("HBM bandwidth", "HBM traffic")
    assert f"{amount} less in {part} {share}" in said.words


def test_compare_says_what_is_missing_where_nothing_fits(jaxroof):
    said = jaxroof(
        "compare --estimator published "
        "--model gpt3 --gpus 8 --batch 8 --system a100-nvs4,b200-nvs8 --split 1d,context"
    )
    found = jr.search(jr.published, question(gpus=8, global_batch=8))
    assert not bool(found.feasible)
    missing = units.size(float(found.memory_missing), "B")
    least = units.size(float(found.memory_least), "B")
    sentence = f"a100-nvs4, 1d: no plan fits. The leanest needs {least}, {missing} more than"
    assert sentence in said.words
    assert rows(said.out)[0][:4] == ["a100-nvs4", "1d", "too", "big"]


NONE = [
    ("--gpus 8 --set system.hbm_capacity='1 GB'", "too big", "no plan fits"),
    ("--gpus 7,8 --set system.hbm_capacity='1 GB'", "no plan", "1d: no plan is legal."),
]


@pytest.mark.parametrize(("arguments", "cell", "sentence"), NONE)
def test_compare_ends_with_one_where_nothing_fits(arguments, cell, sentence, jaxroof):
    said = jaxroof(
        "compare --estimator published "
        f"--model gpt3 --batch 8 --system a100-nvs4 --split 1d {arguments}"
    )
    assert (said.code, said.err) == (1, "")
    assert cell in said.words
    assert sentence in said.words


def test_compare_changes_every_system_and_takes_constraints(jaxroof, tmp_path):
    jaxroof(
        "compare --estimator published "
        "--model gpt3 --gpus 64 --batch 64 --system a100-nvs4,h200-nvs4 --split 1d "
        "--set system.hbm_capacity='200 GB' --set model.layers=48 --set precision.optimizer=4 "
        "--where tp<=2 --format int8 -o best.json"
    )
    data = jr.read(tmp_path / "best.json")
    assert set(data.memory_limit.values) == {200e9}
    for name in ("a100-nvs4", "h200-nvs4"):
        inputs = dataclasses.replace(question(), system=jr.system(name, "int8"))
        alone = jr.search(
            jr.published, inputs, where="tensor<=2",
            **{"system.hbm_capacity": "200 GB", "model.layers": 48, "precision.optimizer": 4},
        )  # fmt: skip
        assert float(data.step_time.sel(system=name)[0]) == float(alone.step_time)


@pytest.mark.parametrize(("gpus", "status"), [("8", 1), ("8,256", 0)])
def test_compare_draws(gpus, status, jaxroof, tmp_path):
    pytest.importorskip("matplotlib")
    asked = f"{STUDY} --gpus {gpus} --batch 64 --system a100-nvs4,b200-nvs8 --split 1d"
    said = jaxroof(f"compare {asked} -o best.svg")
    assert (said.code, said.err) == (status, "wrote best.svg\n")
    assert "<svg" in (tmp_path / "best.svg").read_text()


# ---- Bad input ----------------------------------------------------------------------------------

PAIR = "--estimator published --model gpt3 --gpus 64 --batch 64"
BAD = [  # arguments, a part of the one line
    (f"compare {PAIR} --system a100-nvs4 --split suma", "split: suma: no such Split. Did you"),
    (f"compare {PAIR} --system a100-nvs4 --split 1d,1d", "--split: 1d: given twice; expected each"),
    (f"compare {PAIR} --system a100-nvs4,a100-nvs4", "--systems: a100-nvs4: given twice"),
    (f"compare {PAIR} --system a100-nvs4,b200-nv8", "--system: b200-nv8: no such system. Did you"),
    (f"compare {PAIR} --system h200", "--system: h200: no such system; expected one of h200-nvs4"),
    ("compare --estimator published --model gtp3 --gpus 8 --batch 8 --system a100-nvs4",
     "--model: gtp3: no such model."),
    (f"compare {PAIR} --system a100-nvs4 --format fp9", "fp9: no such number format"),
    (f"compare {PAIR} --system a100-nvs4 -o best.xls", "expected a name that ends in .png, .svg"),
    (f"compare {PAIR}", "Missing option '--system'"),
    (f"pareto {SMALL} --days 0", "--days: expected days above 0, such as 30, given '0'"),
    (f"pareto {SMALL} --days soon", "--days: not a finite number, given 'soon'"),
    (f"pareto {SMALL} --gain -1%", "--gain: expected a share of at least 0"),
    (f"pareto {SMALL} --split contxt", "split: contxt: no such Split. Did you mean 'context'?"),
    (f"pareto {PAIR} --system b200-nv8", "b200-nv8: no such system. Did you mean 'b200-nvs8'?"),
    (f"search {SMALL} --split context --mine tp=4,cp=2,pp=4,dp=4",
     "--mine: dp x tp x cp x pp = 128; expected the 64 of --gpus"),
]  # fmt: skip


@pytest.mark.parametrize(("line", "fragment"), BAD, ids=[line for line, _ in BAD])
def test_bad_input_is_one_line_and_status_two(line, fragment, jaxroof, tmp_path):
    said = jaxroof(line)
    assert (said.code, said.out) == (2, "")
    assert said.err.startswith("jaxroof: ")
    assert said.err.count("\n") == 1
    assert fragment in said.err
    assert not list(tmp_path.iterdir())


NOT_ALLOWED = [  # split, plan, why
    (
        "1d",
        "cp=2",
        "cp=2 is one of the context, panels and fast context degrees other than 1; "
        "expected 1, or --split summa or context",
    ),
    ("context", "panels=2", "expected 1, or --split summa"),
    (
        "summa",
        "tp=4,cp=2,panels=3",
        "tp=4, cp=2, panels=3 is one of the panel counts that do not fit the grid; expected the",
    ),
    ("summa", "tp=3,cp=2,pp=4", "tp x cp x pp = 24 does not divide 64 gpus"),
    ("context", "cp=32", "a shard under 128 tokens; a sequence has"),
]


@pytest.mark.parametrize(("split", "plan", "why"), NOT_ALLOWED)
def test_own_plan_that_its_split_refuses_is_told_why(split, plan, why, jaxroof):
    said = jaxroof(f"search {SMALL} --split {split} --mine {plan}")
    assert (said.code, said.err) == (2, "")
    assert why in said.words.rpartition("Yours is not allowed: ")[2]


# ---- Plans of every split, and axes over names --------------------------------------------------


def test_a_plan_is_told_with_what_its_split_has():
    found = {s: jr.search(jr.published, question(), split=s) for s in SPLITS}
    assert plan_fields(found["1d"]) == [
        "data", "tensor", "pipeline", "microbatch", "fast_tensor", "fast_data", "fast_pipeline",
    ]  # fmt: skip
    for split, pattern in (
        ("1d", r"dp \d+ tp \d+ pp \d+ mb \d+"),
        ("context", r"dp \d+ tp \d+ cp \d+ pp \d+ mb \d+"),
        ("summa", r"dp \d+ tp \d+ cp \d+ pp \d+ mb \d+ panels \d+"),
    ):
        assert re.fullmatch(pattern, plan_words(found[split]))
        places = placement_words(found[split]).split("x")
        assert len(places) == (3 if split == "1d" else 4)
        assert np.prod([int(n) for n in places]) == 4


@pytest.mark.parametrize(("split", "head"), [("context", 6), ("summa", 7)])
def test_a_search_prints_the_degrees_of_its_split(split, head, jaxroof):
    said = jaxroof(f"search {SMALL} --split {split} --top 3 -o best.json")
    assert "fast tp x" in said.out
    assert "cp x dp x pp" in said.out
    assert ("panels" in said.words) == (split == "summa")
    data = jr.read("best.json")
    fields = ["data", "tensor", "context", "pipeline", "microbatch", "panels"][: head - 1]
    for number, row in enumerate(rows(said.out)):
        assert [int(n) for n in row[1:head]] == [int(data[f][number]) for f in fields]


def test_sizes_of_a_split_with_context_line_up(jaxroof):
    said = jaxroof(f"search {MACHINE} --gpus 1,64 --batch 64 --split summa")
    first, second = rows(said.out)
    assert " ".join(first[1:10]) == "- - - - - - - nothing fits"
    assert second[0] == "64"
    assert "1x" in second[7] or "x1" in second[7]


def test_own_plan_of_a_grid_is_placed(jaxroof):
    said = jaxroof(f"search {SMALL} --split summa --mine tp=2,cp=2,pp=4")
    assert said.code == 0
    assert re.search(r"Yours: dp 4 tp 2 cp 2 pp 4 mb \d+ panels \d+ \(\d+x", said.words)


def test_layers_of_a_grid_take_the_fewest_panels(jaxroof):
    line = "layers --estimator published --model gpt3 --system a100-nvs4 --split summa"
    said = jaxroof(f"{line} --plan tp=2,cp=4")
    assert said.code == 0
    assert (
        "1 of the 2 tensor ranks and 4 of the 4 context ranks share an NVLink domain; 4 panels."
        in (said.words)
    )


def test_axes_over_names_are_labelled():
    axes = {"system": ["a100-nvs4", "b200-nvs8"], "split": ["1d", "summa"]}
    data = jr.search(jr.published, question(), axes=axes)
    assert tables.tick(data, "system", 1) == "b200-nvs8"
    grid = printed(tables.grid_table(data))
    assert "system \\ split" in grid
    assert [row[0] for row in rows(grid)] == axes["system"]
    one = printed(tables.grid_table(data.isel(system=0)))
    assert [row[0] for row in rows(one)] == axes["split"]
    assert "fast tp x cp x dp x pp" in one
    assert "panels" in one
    assert "at system b200-nvs8, split " in " ".join(words.sweep_sentences(data))


def test_a_sweep_says_how_much_memory_is_missing_and_where():
    axes = {"system.hbm_capacity": ["1 GB", "2 GB", "80 GB"], "gpus": [7, 64]}
    data = jr.search(jr.published, question(), axes=axes)
    least = float(data.memory_least.sel(gpus=64).min())
    said = words.sweep_sentences(data)[-1]
    assert said.startswith("No plan fits at 5 of 6 points; the smallest needs")
    assert "at 3 of them no plan is legal." in said
    low, high = (units.size(least - n, "B") for n in (2e9, 1e9))
    assert f"Missing: {low} at hbm_capacity 2 GB, gpus 64, to {high} at hbm_capacity 1 GB" in said


def test_what_a_machine_holds_is_the_smallest_of_the_catalogue():
    known = {"small": 1e9, "large": 2e9}
    assert [stairs_views.smallest_system_with(m, known) for m in (1e9, 1.5e9, 3e9)] == [
        "small",
        "large",
        "-",
    ]


@pytest.mark.parametrize("first", ["h100-nvs8", pytest.param("b200-nvs8", marks=pytest.mark.slow)])
def test_a_number_format_is_that_of_each_chip(first, jaxroof, tmp_path):
    """Hopper keeps a transposed copy of an FP8 weight, Blackwell does not."""
    other = {"h100-nvs8": "b200-nvs8", "b200-nvs8": "h100-nvs8"}[first]
    rest = "--model llama3-8b --gpus 8 --batch 64"
    jaxroof(f"compare {rest} --system {first},{other} --set precision=fp8 -o both.json")
    both = jr.read(tmp_path / "both.json")
    for name in (first, other):
        jaxroof(f"search {rest} --system {name} --set precision=fp8 --top 1 -o alone.json")
        alone = jr.read(tmp_path / "alone.json")
        found = both.sel(system=name)
        assert float(found.step_time) == pytest.approx(float(alone.step_time[0]), rel=1e-12)
        assert float(found.memory) == pytest.approx(float(alone.memory[0]), rel=1e-12)


def test_pareto_against_another_result_says_both_ends(jaxroof, tmp_path):
    said = jaxroof(f"pareto {SMALL} --against time_bubble -o {tmp_path / 'b.png'}").out
    assert said.startswith("gpt3")
    assert "at some bound of" in said
    wrong = jaxroof(f"pareto {SMALL} --against tpto")
    assert wrong.code == 2
    assert "against: tpto: no such result" in wrong.err
