"""The answers of the page are those of the commands, the sweep files and the library."""

import dataclasses
import json
import pathlib
import re
import shlex

import numpy as np
import pytest
import xarray as xr
from daily import daily

import jaxroof as jr
from jaxroof.analyses.result_metadata import head_of, said_of, words_of
from jaxroof.app import plans, served
from jaxroof.app.controls import applied, at_place, numbers_of
from jaxroof.app.figures import WHOLE, Bars, step_parts
from jaxroof.app.html import alert, paragraph, said_in
from jaxroof.app.question import asked, numbers
from jaxroof.app.serve import opened
from jaxroof.app.state import START, State, Upload, with_change, with_choice
from jaxroof.app.tabs import Shown, binds, compare, memory, run, schedule, serving, share
from jaxroof.app.tabs import collective as network
from jaxroof.app.tabs import map as maps
from jaxroof.app.tabs.compare import mine, with_mine
from jaxroof.errors import InputError
from jaxroof.units import parse
from jaxroof.views.answers import answer
from jaxroof.views.plots import style
from jaxroof.views.plots.budget import bars_of
from jaxroof.views.plots.frontier import band_of
from jaxroof.views.text.budget import run_columns
from jaxroof.views.text.frontier import frontiers, middle_speed
from jaxroof.views.text.plan import shown_fields
from jaxroof.views.text.ranked import own_sentence

CONFIGS = pathlib.Path(__file__).parents[1] / "catalog" / "huggingface"
SMALL = dataclasses.replace(START, model="llama3-8b", gpus=16, batch=64)
PIPED = dataclasses.replace(SMALL, where="pp=4,mb=1")
OWN_SYSTEM = Upload("mine.toml", 'base = "h100-nvs8"\nhbm_bandwidth = "4.8 TB/s"\nnics = 2\n')
STATES = {
    "small": SMALL,
    "changed": with_change(SMALL, "system.hbm_bandwidth", 4.123456789e12),
    "rules": dataclasses.replace(SMALL, where="tp<=4,off=0", precision="fp8"),
    "choice": with_choice(SMALL, "attention_kernel", "flash"),
    "margin": with_change(SMALL, "system.hbm_usable", 0.9),
    "bought": with_change(dataclasses.replace(SMALL, paid="bought"), "operation.years", 3.0),
    "own system": dataclasses.replace(SMALL, own_system=OWN_SYSTEM, precision="fp8"),
}
each = pytest.mark.parametrize("state", STATES.values(), ids=STATES)


@pytest.fixture(autouse=True)
def files(request, tmp_path, monkeypatch):
    """Work in a folder of its own, beside the files of the state."""
    monkeypatch.chdir(tmp_path)
    state = request.node.callspec.params.get("state") if hasattr(request.node, "callspec") else None
    for own in (state.own_model, state.own_system) if state else ():
        if own is not None:
            pathlib.Path(own.name).write_text(own.text, encoding="utf-8")


@pytest.mark.parametrize(
    "state", daily(STATES.values(), *map([*STATES].index, ("small", "bought", "own system")))
)
def test_every_text_to_share_asks_the_same_and_the_page_opens_with_its_file(
    state, jaxroof, tmp_path
):
    shown = plans.best_plans(state, share.TOP).step_time.values
    words = shlex.split(share.command(state))
    assert words[0] == "jaxroof"
    said = jaxroof(shlex.join([*words[1:], "--top", str(share.TOP), "-o", "plans.json"]))
    assert said.code == 0, said.err
    data = jr.read("plans.json")
    found = np.sort(data.step_time.values[data.feasible.values.astype(bool)])[: share.TOP]
    assert shown[: len(found)].tolist() == pytest.approx(found.tolist(), rel=1e-12)
    assert f"{shown[0]:.4g}"[:5] in said.out
    path, names = tmp_path / "asked.toml", {}
    path.write_text(share.sweep_file(state), encoding="utf-8")
    exec(compile(share.python(state), "asked.py", "exec"), names)
    again = opened(str(path))
    assert asked(again).where == asked(state).where
    for one in (jr.run(path), names["data"], plans.best_plans(again, 1)):
        assert float(one.step_time[0]) == pytest.approx(float(shown[0]), rel=1e-12)


@each
def test_the_parts_of_a_bar_sum_to_the_step_in_the_colours_of_all_pictures(state):
    data = plans.best_plans(state)
    names = [str(place) for place in range(data.sizes["plan"])]
    parts = step_parts(data, names)
    for place, bar in enumerate(names):
        ends = [part.end for part in parts if part.bar == bar]
        assert max(ends) == pytest.approx(float(data.step_time[place]), rel=1e-3)
    known = style.parts(data, WHOLE)
    drawn = dict(Bars().show(data.isel(plan=[1]), ["one"]))
    assert drawn == {
        words_of(data, n): c for n, (_, c) in known.items() if words_of(data, n) in drawn
    }
    assert len(drawn) >= 3


@each
def test_the_fullest_stage_is_what_the_table_says(state):
    data = plans.best_plans(state)
    for place in range(min(3, data.sizes["plan"])):
        found = memory.by_stage(asked(state), data, place)
        assert found.sizes["stage"] == int(data.pipeline[place])
        assert float(found.device.max()) == pytest.approx(float(data.memory[place]), rel=1e-12)
        assert float(found.capacity) == float(data.capacity)


@each
def test_the_words_say_the_numbers(state):
    data = plans.best_plans(state)
    said, best = plans.headline(data), data.isel(plan=0)
    assert f"{float(data.step_time[0]):.4g} s" in said.what
    assert f"{int(data.plans_feasible):,} plans that fit" in said.what
    spread = float(best.get("context", 1.0)) > 1.0  # else no context rank exchanges anything
    told = [f for f in shown_fields(data) if spread or f != "exchange"]
    assert all(f"{head_of(data, f)} {said_of(best, f)}" in said.plan for f in told)


def test_the_whole_run_is_that_of_a_search_and_its_bars_sum_to_it():
    data = run.whole_run(SMALL)
    rent = {"operation.rent": "2 $/h"}
    found = jr.fastest_plans(
        model="llama3-8b", system="h100-nvs8", global_batch=64, gpus=16, settings=rent
    )
    for name in ("wall_days", "cost", "energy", "goodput", "step_time"):
        assert float(data[name][0]) == pytest.approx(float(found[name][0]), rel=1e-12)
    *_, whole = bars_of(data.isel(plan=0))
    assert whole[2] == float(data.wall_days[0])
    said = f"up to {float(data.wall_days_high[0]):,.0f} at the speed of published runs"
    assert run.run_cards(SMALL, data)[0][2] == said


SERVER = dataclasses.replace(SMALL, tab="serving", split="both", other="mi355x")


@pytest.mark.parametrize(
    "state",
    [
        with_change(
            with_change(dataclasses.replace(SERVER, cache="fp8"), "system.matrix_flops", 1.5e15),
            *("limits.load", 3.0),
        ),
        dataclasses.replace(SERVER, own_system=OWN_SYSTEM, weights="bf16", software="sglang-2025"),
    ],
)
def test_a_server_of_the_page_is_that_of_its_command_and_its_python(state, jaxroof):
    data, names = served.best_servers(state), {}
    said = jaxroof(f"{served.command(state).removeprefix('jaxroof ')} -o asked.nc")
    assert said.code == 0, said.err
    exec(compile(served.python(state), "asked.py", "exec"), names)
    for one in (jr.read("asked.nc"), names["data"]):
        assert one.output_rate.values.tolist() == data.output_rate.values.tolist()
        assert float(one.pools_rate) == float(data.pools_rate)
    assert serving.headline(data)[1] in said.out
    if "system.matrix_flops" in dict(state.changes):  # all formats move alike
        found = served.machine_settings(state)
        assert parse(found["system.fp8_flops"], "FLOP/s") == pytest.approx(
            2.0 * parse(found["system.matrix_flops"], "FLOP/s"), rel=1e-3
        )


def test_the_frontier_of_the_page_says_who_is_not_on_it_and_its_band_is_that_of_the_best():
    state = dataclasses.replace(SERVER, weights="fp4")
    data = serving.frontiers_beside(state)
    every = frontiers(data)
    assert [one.name for one in every] == ["mi355x", "b200-180-sxm"]
    assert "format is not known" in json.loads(data.attrs["without"])["h100-nvs8"]
    speed = middle_speed(data, every)
    low, high = band_of(every[1], np.array([speed]))
    assert low[0] < every[1].rate(speed) < high[0]
    state = dataclasses.replace(SERVER, system="b200-180-sxm", split="aggregated")
    best = served.best_servers(state)
    there = frontiers(serving.frontiers_beside(state))[0]
    assert there.rate(1.0 / 0.05) == pytest.approx(float(best.output_rate[0]), rel=1e-12)
    with pytest.raises(InputError, match="h100-nvs8: "):
        serving.frontiers_beside(dataclasses.replace(state, model="nemotron-h-8b"))


def test_runs_on_other_sizes_are_searches_there_and_slices_have_theirs():
    runs = run.sizes_around(asked(SMALL, run=True), SMALL.gpus)
    assert runs.gpus.values.tolist() == [2, 4, 8, 16, 32, 64, 128]
    there = run.whole_run(dataclasses.replace(SMALL, gpus=64))
    assert float(runs.cost[5]) == pytest.approx(float(there.cost[0]), rel=1e-12)
    assert {"dollars", "energy"} <= {one.head for one in run_columns(runs)}
    slices = run.whole_run(dataclasses.replace(SMALL, system="tpu-v5p"))
    assert float(slices.cost[0]) > 0.0


def test_the_stairs_pass_through_today():
    data, steps = plans.best_plans(SMALL), memory.stairs(asked(SMALL))
    today = steps.step_time.values[steps.place.values == 0]
    assert today.tolist() == [pytest.approx(float(data.step_time[0]))]
    assert (np.diff(steps.step_time.values) <= 0.0).all()


def test_a_bar_of_the_tornado_is_what_a_move_does():
    first = binds.binding(asked(SMALL))[0]
    before = float(plans.best_plans(SMALL, 1).step_time[0])
    rate = float(getattr(asked(SMALL).inputs.system, first.path.removeprefix("system.")))
    after = plans.best_plans(with_change(SMALL, first.path, rate * 1.001), 1)
    moved = float(after.step_time[0]) / before - 1.0
    assert moved == pytest.approx(1.001**first.elasticity - 1.0, rel=0.02)


def maps_of(state: State, across: str, up: str) -> list[maps.Map | str]:
    """Return the maps of a state over two fields, and the words between them."""
    state = dataclasses.replace(state, across=across, up=up)
    return list(maps.machine_maps(Shown(state, asked(state), plans.best_plans(state))))


def test_a_map_of_many_plans_comes_in_pieces_the_coarse_one_first(monkeypatch):
    fields = ("system.hbm_bandwidth", "gpus")
    (whole,) = maps_of(SMALL, *fields)
    for name, value in (("MANY", 0), ("FINE", (4, 3)), ("COARSE", (2, 2))):
        monkeypatch.setattr(maps, name, value)
    found = maps_of(SMALL, *fields)
    words = [one for one in found if isinstance(one, str)]
    drawn = [one for one in found if isinstance(one, maps.Map)]
    assert [one.plan.size for one in drawn] == sorted(one.plan.size for one in drawn)
    assert len(words) >= 4
    assert "points of the map" in words[0]
    for one in drawn:
        same = whole.data.step_time.sel(across=one.axes[0], up=one.axes[1])
        assert np.array_equal(same.values, one.data.step_time.values, equal_nan=True)
        assert one.here == whole.here


def test_a_machine_of_the_map_that_is_taken_moves_no_axis():
    fields = ("system.hbm_bandwidth", "gpus")
    (before,) = maps_of(SMALL, *fields)
    for across, up in ((3, -2), (-3, 2)):
        place = float(before.axes[0][across]), float(before.axes[1][up])
        taken = at_place(SMALL, *zip(fields, place, strict=True))
        told, usual = numbers(asked(taken))[fields[0]], numbers_of(SMALL)[fields[0]]
        assert maps.axis(fields[0], told, usual, 25).tolist() == before.axes[0].tolist()


FIELDS = (("system.hbm_bandwidth", "system.matrix_flops"), ("gpus", "system.fast_domain"))


@pytest.mark.parametrize("fields", FIELDS)
def test_a_point_of_the_map_is_a_search_there(fields, monkeypatch):
    monkeypatch.setattr(maps, "POINTS", (5, 5))
    data, (found,) = plans.best_plans(SMALL), maps_of(SMALL, *fields)
    at = dict(zip(("across", "up"), found.here, strict=True))
    times = found.data.step_time
    best = float(data.step_time[0])
    assert float(times.sel(at, method="nearest")) == pytest.approx(best, rel=1e-12)
    assert ((found.plan >= 0) == np.isfinite(times.values)).all()
    number = xr.DataArray(found.plan, times.coords).sel(at, method="nearest")
    assert found.plans[int(number)] == plans.names(data)[0]


def test_a_map_of_no_field_or_of_one_is_refused():
    for fields in (("secret", "gpus"), ("gpus", "gpus"), ("gpus", "system.chip.matmul")):
        with pytest.raises(InputError):
            maps_of(SMALL, *fields)


@pytest.mark.parametrize("name", ["1f1b", "zb-h1"])
def test_schedules_are_those_of_the_library_and_the_timeline_ends_with_the_step(name):
    chosen = (("schedule", name.replace("-", "_")),)
    state = dataclasses.replace(PIPED, choices=chosen if name != "1f1b" else ())
    found, data = asked(state), plans.best_plans(state)
    rows = schedule.schedules(found, data)
    assert set(rows.schedule.values) == set(schedule.SCHEDULES)
    own = schedule.own_schedule(data)
    assert own in (name, "interleaved" if name == "1f1b" else name)
    time = float(rows.step_time.sel(schedule=own))
    assert time == pytest.approx(float(data.step_time[0]), rel=1e-12)
    drawn = schedule.timeline(found, data, "")
    assert (drawn.name, drawn.rows) == (own, 4)
    assert max(block.end for _, block in drawn.blocks) == pytest.approx(drawn.step)
    assert drawn.step == pytest.approx(time, rel=1e-9)


def test_a_timeline_shows_so_many_blocks_and_one_of_too_many_or_no_visits_is_refused(monkeypatch):
    monkeypatch.setattr(schedule, "BLOCKS", 10)
    drawn = schedule.timeline(asked(PIPED), plans.best_plans(PIPED), "1f1b")
    assert len(drawn.blocks) == 10
    assert drawn.blocks[-1][1].start <= drawn.shown < drawn.step
    monkeypatch.setattr(schedule, "VISITS", 10)
    with pytest.raises(InputError, match="visits of stages"):
        schedule.timeline(asked(PIPED), plans.best_plans(PIPED), "1f1b")
    flat = dataclasses.replace(SMALL, where="pp=1")
    with pytest.raises(InputError, match="no pipeline"):
        schedule.schedules(asked(flat), plans.best_plans(flat))


def test_two_machines_are_two_searches():
    state = dataclasses.replace(SMALL, other="b200-180-sxm")
    found = compare.two_machines(state, plans.best_plans(state))
    other = plans.best_plans(dataclasses.replace(SMALL, system="b200-180-sxm"), 1)
    assert float(found.plans[1].step_time) == float(other.step_time[0])
    assert [row[1:] for row in found.rows if row[0] == "HBM bandwidth"] == [
        ("3.35 TB/s", "7.7 TB/s")
    ]
    assert compare.machines_sentence(found).startswith("b200-180-sxm is")


def test_my_plan_is_the_fastest_with_its_fields_and_placed_among_all():
    data, wrong = with_mine(dataclasses.replace(SMALL, mine="tp=8,pp=1"))
    assert wrong == ""
    assert data.step_time.values.tolist() == plans.best_plans(SMALL).step_time.values.tolist()
    only = plans.best_plans(dataclasses.replace(SMALL, where="tp=8,pp=1"), 1)
    both, different = mine(data)
    assert float(both.step_time[1]) == float(only.step_time[0])
    assert ("tensor (tp)", str(int(data.tensor[0])), "8") in different
    assert "own" not in with_mine(SMALL)[0]


@pytest.mark.parametrize("typed", ["tp<=8", "tp=banana", "tp=3", "secret=1"])
def test_a_wrong_plan_of_mine_is_named_and_harms_no_answer(typed):
    data, wrong = with_mine(dataclasses.replace(SMALL, mine=typed))
    assert wrong.startswith("my plan: ")
    assert float(data.step_time[0]) == float(plans.best_plans(SMALL, 1).step_time[0])


def test_a_rule_that_no_plan_keeps_is_said_with_values_that_plans_have():
    with pytest.raises(InputError) as refused:
        plans.best_plans(dataclasses.replace(SMALL, where="tp=3"))
    words = str(refused.value)
    assert words.startswith("where: no legal plan on 16 accelerators has tp=3")
    values = [int(value) for value in re.findall(r"tp=(\d+)", words)][1:]
    assert values
    assert 3 not in values
    for value in values[:2]:
        rules = dataclasses.replace(SMALL, where=f"tp={value}")
        assert plans.best_plans(rules, 1).tensor[0] == value
    both = dataclasses.replace(SMALL, where="tp=8,pp=4")
    with pytest.raises(InputError, match="keeps tp=8 and pp=4 together"):
        plans.best_plans(both)


def test_days_say_of_how_many_tokens_and_whether_anybody_said_so():
    known = plans.tokens_words(plans.best_plans(SMALL, 1))
    assert known == "for the 15 trillion tokens of its training"
    config = next(CONFIGS.glob("*qwen3*.json"))
    text = config.read_text(encoding="utf-8")
    own = applied(SMALL, "own_model", {"file": config.name, "text": text})
    assert plans.tokens_words(plans.best_plans(own, 1)) == "for 1 trillion tokens, assumed"


UNANSWERED = (
    dataclasses.replace(SMALL, gpus=67),
    dataclasses.replace(SMALL, model="llama3.1-405b", gpus=8),
    dataclasses.replace(SMALL, model="deepseek-v3", gpus=8),
    dataclasses.replace(SMALL, where="tp=3"),
    dataclasses.replace(SMALL, where="tp<<3"),
    dataclasses.replace(SMALL, model="gpt3-1t"),
    dataclasses.replace(SMALL, own_model=Upload("m.toml", 'base = "gpt3-1t"')),
    dataclasses.replace(SMALL, system="h100-nvs8", precision="nvfp4"),
)
MINE = ("tp=8,pp=1", "dp=1,tp=1,cp=16", "tp=3", "tp=2,pp=4,where=1", "zero=0,dp=16,rc=0", "dp=16")


def test_the_page_names_its_controls_and_no_option_of_the_shell():
    said = []
    for state in UNANSWERED:
        with pytest.raises(InputError) as refused:
            plans.best_plans(state)
        assert "\n" not in str(refused.value)
        said.append(alert(str(refused.value)))
    for typed in MINE:
        data, wrong = with_mine(dataclasses.replace(SMALL, mine=typed, where="pp<=2"))
        said += [alert(wrong), paragraph(own_sentence(data))]
    for state in (SMALL, dataclasses.replace(SMALL, model="mixtral-8x7b", gpus=32)):
        data = plans.best_plans(state)
        said += [*map(paragraph, plans.headline(data))]
        said += [paragraph(memory.answer_sentence(memory.by_stage(asked(state), data)))]
    said += [paragraph(binds.NOTE), paragraph(maps.NOTE)]
    piped = schedule.schedules(asked(PIPED), plans.best_plans(PIPED))
    said += [said_in(answer(piped), schedule.CAPTION)]
    for words in said:
        assert "--" not in words
        assert not re.search(r"jaxroof \w", words), words


def test_a_file_that_is_no_search_is_refused_with_its_name(tmp_path):
    path = tmp_path / "other.toml"
    for content in (
        "x = 1",
        'model = "llama3-8b"\nsystem = "h100-nvs8"\nplan = { tensor = 8 }',
        "[",
    ):
        path.write_text(content, encoding="utf-8")
        with pytest.raises(InputError, match=r"other\.toml"):
            opened(str(path))


def test_the_network_is_that_of_a_fabric_with_such_nodes():
    found = network.collectives(SMALL)
    assert found.fabric == "dgx-h100-pod"
    assert [row[0] for row in network.rows(found)] == [
        network.WORDS.get(op, op) for op in network.OPS
    ]
    data = jr.collective("dgx-h100-pod", "all_reduce", gpus=SMALL.gpus, sizes="64MiB")
    assert (
        f"{float(data.time[0]):.4g}"
        == f"{float(found.every['all_reduce'].time.sel(size=2.0**26)):.4g}"
    )
    none = network.collectives(dataclasses.replace(SMALL, system="tpu-v3"))
    assert "no fabric of the catalogue" in none.wrong
