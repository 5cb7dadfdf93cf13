"""One layer of today's training: the Dataset, sweep files, what is typed and printed."""

import dataclasses

import numpy as np
import pytest
from refusals import refused

import jaxroof as jr
from jaxroof.analyses.training_plans import training_step
from jaxroof.estimators.training.step_time import plan_time
from jaxroof.records import with_named_absences

PLAN = {"data": 8, "tensor": 8, "pipeline": 4}
ASKED = {"model": "llama3-70b", "system": "h100-nvs8", "global_batch": 64}
SETTINGS = {**ASKED, **{f"plan.{field}": degree for field, degree in PLAN.items()}}
LINE = "layers --model llama3-70b --system h100-nvs8 --plan dp=8,tp=8,pp=4"
EXPERTS = "layers --model deepseek-v3 --system gb200-nvl72 --plan dp=8,ep=8 --set precision=mxfp8"


@pytest.mark.parametrize("changed", [
    {}, {"plan.recompute": 2},
    {"plan.recompute": 1, "selective": "core_attn", "attention_kernel": "unfused"},
    {"plan.zero_stage": 3, "plan.pipeline": 1},
    {"model": "deepseek-v3", "plan.pipeline": 1, "plan.expert": 8, "precision": "fp8"},
])  # fmt: skip
def test_the_rows_sum_to_the_layer_of_the_step(changed):
    data = jr.training_layers(SETTINGS, settings=changed)
    inputs, recipe = training_step(SETTINGS, None, changed)
    time = plan_time(with_named_absences(inputs), recipe).sharded
    assert float(data.time_forward.sum()) == pytest.approx(float(time.forward), rel=1e-11)
    assert float(data.time_backward.sum()) == pytest.approx(float(time.backward), rel=1e-11)
    assert float(data.share.sum()) == pytest.approx(1.0, rel=1e-12)
    assert all(data[name].attrs["long_name"] for name in data.data_vars)


def test_a_row_has_a_rate_where_something_is_multiplied():
    data = jr.training_layers(SETTINGS, settings={"plan.recompute": 2})
    multiplied = data.flops_forward + data.flops_backward > 0.0
    np.testing.assert_array_equal(np.isfinite(data.peak_share), multiplied)
    names = data.operation.values[multiplied.values].tolist()
    assert names == ["qkv", "attention", "attention output", "MLP up", "MLP down", "recomputation"]
    peak = jr.system("h100-nvs8").matrix_flops
    row = data.sel(operation="MLP up")
    rate = float((row.flops_forward + row.flops_backward) / (row.time_forward + row.time_backward))
    assert float(row.peak_share) == pytest.approx(rate / float(peak), rel=1e-12)


def test_records_ask_as_settings_do():
    inputs, recipe = training_step(SETTINGS, None, {})
    assert jr.training_layers(inputs, recipe).identical(jr.training_layers(SETTINGS))
    again = dataclasses.replace(inputs, plan=None)
    with pytest.raises(jr.InputError, match=r"^plan: not given"):
        jr.training_layers(again, recipe)


BAD = [  # settings, what is said
    ({"plan.tensor": 7}, "plan: tp=7: not legal (tensor degrees that do not divide the heads)"),
    ({"plan.pipeline": 37}, "plan: pp=37: not legal (pipelines whose chunks are unequal"),
    ({"plan.tensor": np.array([1.0, 2.0])}, "plan.tensor: expected one number, given 2 of them"),
    ({"plan.tensr": 7}, "plan.tensr: no such field of TrainingPlan. Did you mean 'plan.tensor'?"),
    ({"precision": "fp9"}, "precision: fp9: no such number format. Did you mean 'fp8'?"),
]


@pytest.mark.parametrize(("changed", "said"), BAD)
def test_bad_input_is_named(changed, said):
    assert refused(jr.training_layers, {**SETTINGS, **changed}).startswith(said)


def test_a_sweep_file_may_ask_for_the_operations(jaxroof, tmp_path):
    text = """answer = "layers"
estimator = "training"
model = "llama3-70b"
system = "h100-nvs8"
plan = { global_batch = 64, data = 8, tensor = 8, pipeline = 4 }
"""
    (tmp_path / "one.toml").write_text(text)
    said = jaxroof("run one.toml -o one.nc")
    assert "MLP up" in said.out
    np.testing.assert_array_equal(jr.read("one.nc").share, jr.training_layers(SETTINGS).share)


# ---- What people type ---------------------------------------------------------------------------


@pytest.mark.parametrize("line", [LINE, EXPERTS])
@pytest.mark.parametrize("width", [60, 80])
def test_table_and_sentences_keep_to_the_width(jaxroof, monkeypatch, line, width):
    monkeypatch.setenv("COLUMNS", str(width))
    said = jaxroof(line)
    assert (said.code, said.err) == (0, "")
    assert max(map(len, said.out.splitlines())) <= width


def test_the_command_says_what_dominates(jaxroof):
    data = jr.training_layers(SETTINGS)
    largest = data.isel(operation=int(np.argmax(data.share.values)))
    products = float(data.share.values[data.kind.values == "matrix product"].sum())
    said = jaxroof(LINE).words
    assert said.startswith(
        "llama3-70b on h100-nvs8, dp 8 tp 8 pp 4 mb 1: one layer, one microbatch"
    )
    assert f"Of both: matrix products {100 * products:.0f} %" in said
    assert f"largest operation is {largest.operation.values}, {100 * largest.share:.0f} %." in said


REFUSED = [  # options, the one line
    ("--split 1d", "split: no such field of"),
    ("--format fp8", "--format: of the study alone"),
    ("--plan tq=8", "--plan: tq: no such plan field; expected one of dp, tp"),
    ("--plan tp=8,tensor=4", "--plan: tensor: given twice; expected each field once"),
    ("--plan tp=7", "plan: tp=7: not legal"),
    ("--system rtx-4090", "system.fast_bandwidth, system.slow_bandwidth"),
    ("--set model=gpt3-175b", "--set: model: given twice; expected it in --model alone"),
    ("--estimator trainin", "--estimator: trainin: no such estimator. Did you mean"),
]


@pytest.mark.parametrize(("options", "said"), REFUSED)
def test_what_cannot_be_used_is_refused_in_one_line(jaxroof, options, said):
    ended = jaxroof(f"{LINE} {options}")
    assert (ended.code, ended.out, ended.err.count("\n")) == (2, "", 1)
    assert ended.err.startswith(f"jaxroof: {said}")


def test_the_operations_are_drawn_in_the_colour_of_their_kind():
    plots = pytest.importorskip("jaxroof.views.plots")
    data = jr.training_layers(SETTINGS)
    left, right = plots.draw(data).axes
    names = [label.get_text() for label in left.get_yticklabels()]
    known = {"qkv": "queries, keys, values"}
    assert names == [known.get(name, name) for name in data.operation.values.tolist()]
    _, words = right.get_legend_handles_labels()
    assert len(words) == len(set(data.kind.values))
    widths = np.array([bar.get_width() for bar in right.patches]).reshape(len(words), -1)
    np.testing.assert_allclose(widths.sum(axis=0), data.time_backward * 1e3)
