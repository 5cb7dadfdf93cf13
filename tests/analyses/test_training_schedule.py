"""Schedules of today's training: the Dataset, traces, what is typed and printed."""

import json
import pathlib

import numpy as np
import pytest
from refusals import refused
from schedule_figures import in_flight

import jaxroof as jr
from jaxroof.estimators.pipelines import SCHEDULES
from jaxroof.views.trace_blocks import shares

PLAN = {"data": 2, "tensor": 8, "pipeline": 4}
ASKED = {"model": "llama3-70b", "system": "h100-nvs8", "global_batch": 32}
SETTINGS = {**ASKED, **{f"plan.{field}": degree for field, degree in PLAN.items()}}
MICROBATCHES = ASKED["global_batch"] // PLAN["data"]
SEARCHED = "search --model llama3-70b --system h100-nvs8 --gpus 64 --batch 32 --where "
SEARCHED += "dp=2,tp=8,pp=4,vp=1,mb=1,zero=1,rc=0,off=0"
LINE = "schedule --model llama3-70b --system h100-nvs8 --batch 32 --plan dp=2,tp=8,pp=4,vp=1,mb=1"


def test_schedules_side_by_side_are_a_dataset():
    data = jr.training_schedule(SETTINGS)
    assert dict(data.sizes) == {"schedule": len(SCHEDULES), "device": PLAN["pipeline"]}
    assert data.allowed.all()
    assert "step_time_closed_form" not in data
    assert float(data.memory_limit) == jr.training.limit(jr.training.example())
    for name in SCHEDULES:
        row = data.sel(schedule=name)
        chunks = 2 if name == "interleaved" else 1
        most = in_flight(name, PLAN["pipeline"], MICROBATCHES, chunks)
        np.testing.assert_array_equal(row.in_flight, most)
        fits = bool((row.memory <= data.memory_limit).all())
        assert bool(row.feasible) == bool(row.memory_fits) == fits
    assert all(data[name].attrs["long_name"] for name in data.data_vars)


def test_what_a_schedule_does_not_allow_stays_with_its_reason(tmp_path):
    data = jr.training_schedule(SETTINGS, schedules=["1f1b-greedy", "1f1b"])
    assert data.allowed.values.tolist() == [False, True]
    assert np.isnan(data.step_time[0])
    assert np.isnan(data.memory[0]).all()
    assert str(data.reason[0].values).startswith(
        "1f1b-greedy: its memory is not modelled; expected"
    )
    for ending in ("nc", "json"):
        jr.write(data, tmp_path / f"s.{ending}")
        assert jr.read(tmp_path / f"s.{ending}").identical(data)


def test_chunks_are_those_of_the_plan_if_it_has_several():
    own = jr.training_schedule(SETTINGS, settings={"plan.interleave": 5}, schedules="interleaved")
    said = jr.training_schedule(SETTINGS, chunks=5, schedules="interleaved")
    assert float(own.step_time[0]) == float(said.step_time[0])
    assert int(own.stage_layers[0]) == 80 // (4 * 5)


BAD = [  # arguments, what is said
    ({"schedules": "zbh1"}, "schedules: zbh1: no such schedule. Did you mean 'zb-h1'?"),
    ({"chunks": 0}, "chunks: expected a whole number of at least 1, given 0"),
    ({"chunks": 2, "plan.interleave": 4}, "chunks: given 2 beside the plan's interleave=4;"),
    ({"sends": "blocked"}, "sends: blocked: no such kind of sends. Did you mean 'blocking'?"),
    ({"plan.pipeline": 1}, "plan: pipeline: a schedule is of a pipeline; expected 2 stages"),
    ({"plan.pipeline": 37}, "plan: pp=37: not legal (pipelines whose chunks are unequal"),
    ({"schedules": "interleaved", "chunks": 3},
     "interleaved: plan: pp=4, vp=3: not legal (pipelines whose chunks are unequal"),
    ({"schedules": ["dualpipe"], "global_batch": 8},
     "dualpipe: plan: pp=4, microbatches=4: not legal (DualPipe with odd pipelines or"),
]  # fmt: skip


@pytest.mark.parametrize(("changed", "said"), BAD)
def test_bad_input_is_named(changed, said):
    how = {name: changed[name] for name in ("schedules", "chunks", "sends") if name in changed}
    rest = {name: value for name, value in changed.items() if name not in how}
    assert refused(jr.training_schedule, {**SETTINGS, **rest}, **how).startswith(said)


@pytest.mark.parametrize("name", SCHEDULES)
def test_a_trace_has_every_visit_and_lasts_as_long_as_the_clock(name):
    data = jr.training_schedule(SETTINGS, schedules=name).isel(schedule=0)
    trace = jr.trace("training", SETTINGS, schedule=name)
    busy = trace.kind.isin(["forward", "backward", "weight", "send"])
    for device in range(PLAN["pipeline"]):
        here = busy & (trace.device == device + 1)
        time = float(trace.duration.where(here).sum())
        assert time == pytest.approx(float(data.busy_time[device]), rel=1e-9)
    last = float((trace.start + trace.duration).max())
    assert last == pytest.approx(float(data.step_time), rel=1e-9)
    assert shares(trace)["idle"] == pytest.approx(float(data.bubble.mean()), rel=1e-6)


# ---- What people type ---------------------------------------------------------------------------


def test_the_command_says_which_is_best_with_its_interval_and_writes_a_trace(jaxroof):
    said = jaxroof(f"{LINE} -o s.json --trace t.json")
    data = jr.read("s.json")
    assert said.code == (0 if data.feasible.any() else 1)
    assert said.words.startswith("llama3-70b on h100-nvs8, dp 2 tp 8 pp 4 mb 1: 16 microbatches")
    searched = jaxroof(f"{SEARCHED} -o found.json")
    assert searched.code == 0
    own = float(data.sel(schedule="1f1b").step_time)
    assert float(jr.read("found.json").step_time[0]) == pytest.approx(own, rel=1e-12)
    assert "in 80 % of runs" in said.words
    more = jaxroof(f"{LINE} --verbose").words
    assert "80 % of measured runs (dense 16 bit) took between" in more
    events = json.loads(pathlib.Path("t.json").read_text("utf-8"))["traceEvents"]
    assert len({e["tid"] for e in events if e["ph"] == "X"}) == PLAN["pipeline"]


@pytest.mark.parametrize("width", [60, 80])
def test_table_and_sentences_keep_to_the_width(jaxroof, monkeypatch, width):
    monkeypatch.setenv("COLUMNS", str(width))
    said = jaxroof(f"{LINE} --schedule 1f1b,1f1b-greedy,zb-h1")
    assert max(map(len, said.out.splitlines())) <= width


REFUSED = [  # options, the one line
    ("--first 0.1", "first: no such field of"),
    ("--last 0.8", "last: no such field of"),
    ("--split 1d", "split: no such field of"),
    ("--schedule zbh1", "--schedule: zbh1: no such schedule. Did you mean 'zb-h1'?"),
    ("--schedule 1f1b --chunks 3", "--chunks: none of 1f1b has a choice of it; expected it with"),
    ("--sends blocked", "--sends: blocked: no such kind of sends. Did you mean 'blocking'?"),
    ("--plan tp=8", "--plan: pp=1: a schedule is of a pipeline; expected pp=2 or more"),
    ("--system tpu-v5e", "tpu-v5e: a torus of TPUs, whose step is MaxText's; expected search, "),
    ("--estimator unfused", "--estimator: unfused: has no schedule; expected one that has"),
]


@pytest.mark.parametrize(("options", "said"), REFUSED)
def test_what_cannot_be_used_is_refused_in_one_line(jaxroof, options, said):
    ended = jaxroof(f"{LINE} {options}")
    assert (ended.code, ended.out, ended.err.count("\n")) == (2, "", 1)
    assert ended.err.startswith(f"jaxroof: {said}")


def test_schedules_are_drawn_with_all_that_a_step_is_spent_on():
    plots = pytest.importorskip("jaxroof.views.plots")
    data = jr.training_schedule(SETTINGS)
    times, memory = plots.draw(data).axes
    widths = np.array([bar.get_width() for bar in times.patches]).reshape(4, len(SCHEDULES))
    assert np.sort(widths.sum(axis=0)) == pytest.approx(np.sort(data.step_time.values), rel=1e-9)
    needs = np.sort([bar.get_x() + bar.get_width() for bar in memory.containers[-1]])
    assert needs == pytest.approx(np.sort(data.memory.max("device").values) / 1e9)
