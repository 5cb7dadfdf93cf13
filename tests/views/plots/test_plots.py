"""Pictures draw what the datasets hold: lines, bars, marks, what does not fit, and the words."""

import importlib
import importlib.machinery
import itertools
import json
import sys
import types
from pathlib import Path

import numpy as np
import pytest
import xarray as xr
from matplotlib.collections import QuadMesh
from matplotlib.container import BarContainer
from matplotlib.text import Text

import jaxroof as jr
from jaxroof.analyses.result_metadata import parts_of
from jaxroof.engine.grid.dataset import attributes, roles
from jaxroof.errors import InputError
from jaxroof.units import amount
from jaxroof.validation.steps import packaged_answers
from jaxroof.views import answers, plots
from jaxroof.views.plots import select as choose
from jaxroof.views.plots import style
from jaxroof.views.plots.step_accuracy import predicted_measured

SWEEPS = Path(jr.__file__).parents[1] / "sweeps"
SYSTEMS = ["a100-nvs4", "h200-nvs4", "h200-nvs8"]
SIZES = [16, 64, 128, 256, 512, 1024]
PLAN = {"data": 64, "tensor": 4, "pipeline": 8, "microbatch": 1, "fast_tensor": 4}


def inputs(system="b200-nvs8", model="gpt3-1t", **more):
    given = {"global_batch": 4096.0, **more}
    return jr.Inputs(model=jr.model(model), system=jr.system(system), **given)


@pytest.fixture(scope="module")
def sizes():
    axes = {"system": SYSTEMS, "split": ["1d", "context"], "gpus": SIZES}
    return jr.search(jr.published, inputs(), axes=axes)


@pytest.fixture(scope="module")
def one_d(sizes):
    return sizes.sel(split="1d")


@pytest.fixture(scope="module")
def machines():
    axes = {
        "system.hbm_bandwidth": jr.geomspace("1 TB/s", "16 TB/s", 5),
        "system.hbm_capacity": jr.linspace("20 GB", "200 GB", 10),
    }
    return jr.search(jr.published, inputs(), gpus=1024, axes=axes)


@pytest.fixture(scope="module")
def stairs():
    plans = jr.survey(jr.published, inputs(), gpus=1024)
    order = np.argsort(plans.memory.values, kind="stable")
    times = plans.step_time.values[order]
    better = times < np.append(np.inf, np.minimum.accumulate(times)[:-1])
    return plans.isel(plan=order[better]).rename(plan="step_number")


def lines(axes):
    return {line.get_label(): line for line in axes.lines if line.get_label()[0] != "_"}


def words(figure):
    return [text.get_text() for text in figure.findobj(Text)]


def hatched(axes):
    return [patch for patch in axes.patches if patch.get_hatch()]


def assert_line(line, data, name):
    kept = data.where(data.gpus >= line.get_xdata()[0], drop=True)
    np.testing.assert_allclose(line.get_xdata(), kept.gpus)
    np.testing.assert_allclose(line.get_ydata(), kept[name])


def said(figure):
    """Return every text of a picture, its lines joined."""
    return [" ".join(text.split()) for text in words(figure) if text.strip()]


def ends(axes):
    """Return where the bars of a picture end."""
    drawn = [one for one in axes.containers if isinstance(one, BarContainer)]
    return [bar.get_x() + bar.get_width() for bar in drawn[-1]]


def test_days_are_a_line_a_system_and_what_never_fits_is_said(sizes):
    figure = plots.draw(sizes)
    assert [axes.get_title() for axes in figure.axes] == ["1d", "context"]
    drawn = lines(figure.axes[0])
    assert list(drawn) == SYSTEMS
    for name, line in drawn.items():
        assert_line(line, sizes.sel(system=name, split="1d"), "training_days")
    assert hatched(figure.axes[0])
    assert figure.axes[0].get_yscale() == "log"
    assert "nothing fits below 256" in words(figure)
    last = sizes.training_days.isel(gpus=-1)
    found = f"{float(last.min()):.4g} days with 1,024 accelerators: h200-nvs8, context; a100-nvs4"
    assert any(one.startswith(found) for one in said(figure))
    dashed = figure.axes[0].lines[len(drawn)].get_xydata()[[0, -1]]
    days = float(sizes.training_days.sel(system="a100-nvs4", split="1d", gpus=512))
    assert dashed.tolist() == [[512, days], [1024, days / 2]]
    fits = (sizes.system != "a100-nvs4") & (sizes.split != "context")
    figure = plots.lines(sizes.assign(feasible=sizes.feasible & fits))
    assert "nothing fits at any size" in words(figure)
    assert "does not fit: a100-nvs4" in said(figure)


def test_lines_of_any_result_along_any_axis():
    asked = {"longest_run": "90 days", "step_latency": "9 us"}
    axes = {
        "system": ["h100-sxm5", "h100-sxm5-10gb"],
        "training_flops": jr.geomspace(1e24, 1e34, 11),
    }
    data = jr.evaluate("limits", asked, axes=axes)
    figure = plots.draw(data)
    (axes,) = figure.axes
    assert list(lines(axes)) == axes_names(data)
    assert axes.get_xlabel() == "training flops [FLOP]"
    assert axes.get_xscale() == "log"
    assert axes.yaxis.get_major_formatter()(0.5) == "50%"
    devices = plots.lines(data, "devices").axes[0]
    held = data.devices.where(data.feasible).sel(system="h100-sxm5")
    np.testing.assert_allclose(lines(devices)["h100-sxm5"].get_ydata(), held)


def axes_names(data):
    return data.system.values.tolist()


def test_points_of_an_axis_are_bars_of_shares_with_plan_time_and_memory(one_d):
    data = one_d.sel(system="h200-nvs8")
    times, memory = plots.draw(data).axes
    fits = data.where(data.feasible, drop=True)
    np.testing.assert_allclose(ends(times)[-3:], 100.0)
    np.testing.assert_allclose(ends(memory)[-3:], fits.memory / 1e9)
    drawn = [text.get_text() for text in times.texts if text.get_text().endswith(" s")]
    assert drawn == [amount(float(f"{time:.4g}"), "s") for time in fits.step_time]
    assert len(hatched(times)) == len(times.texts) - 2 * len(drawn) - shares(times) == 2
    last = data.isel(gpus=-1)
    assert f"1,024 accelerators dp {int(last['data'])} tp {int(last.tensor)}" in " ".join(
        said(times)
    )


def shares(axes):
    return sum(text.get_text().endswith(" %") or not text.get_text() for text in axes.texts)


def test_configurations_are_named_and_what_cannot_run_says_why():
    wrong = {"plan.tensor": [4, 5, 1, 5], "plan.pipeline": [64, 64, 1, 1]}
    own = inputs(plan=jr.Plan(**PLAN, fast_data=2))
    data = jr.tabulate(jr.published, own, axes={"configuration": wrong})
    assert data.memory_fits.values.tolist() == [True, True, False, False]
    for shown in (data, data.drop_vars("memory_fits")):
        rows = [t for t in said(plots.draw(shown).axes[0]) if t.startswith("tensor ")]
        reasons = ["", "not legal", "does not fit", "does not fit"]
        assert [row.endswith(why) for row, why in zip(rows, reasons, strict=True)] == [True] * 4
        assert rows[1].startswith("tensor 5, pipeline 64")


def test_machines_side_by_side(sizes):
    data = sizes.sel(gpus=256)
    times, memory = plots.draw(data).axes
    drawn = data.step_time.transpose("split", "system").values.ravel()
    np.testing.assert_allclose(ends(times), np.nan_to_num(np.sort(drawn)))  # the best on top
    told = said(times)
    slowest = float(data.step_time.max() / data.step_time.min())
    assert any(text.endswith(f"({slowest:.2f}×)") for text in told)
    longer = data.step_time * xr.DataArray([1.0, 10.0], {"model": ["small", "large"]}, "model")
    two = plots.draw(data.drop_vars("step_time").assign(step_time=longer))
    most = max(float(t[1:-2]) for s in said(two.axes[0]) for t in s.split() if t.endswith("×)"))
    assert most == float(f"{slowest:.2f}")  # within a model
    reasons = [text for text in told if " needs " in text]
    assert all(text.endswith(" of 80 GB") for text in reasons)
    assert len(hatched(times)) == len(reasons) > 0
    assert memory.get_title() == "dashed: what there is"


@pytest.fixture(scope="module")
def several():
    """Return the best plans of several numbers of accelerators, as one search prints them."""
    asked = {"model": "llama3-8b", "system": "h100-nvs8", "global_batch": 64, "top": 5}
    counts = (8, 16, 32)
    found = [jr.fastest_plans(gpus=n, where="tp<=2,off=0", **asked) for n in counts]
    parts = [f.drop_vars([n for n in f if "plan" not in f[n].dims]) for f in found]
    whole = xr.concat(parts, "plan", combine_attrs="override")
    return whole.assign(gpus=("plan", np.repeat(counts, [part.sizes["plan"] for part in parts])))


def test_plans_of_a_search_are_bars_in_groups_and_one_of_ones_own_stands_below(several):
    figure = plots.draw(several)
    figure.draw_without_rendering()
    assert [f"{size} accelerators" for size in (8, 16, 32)] == [
        t for t in words(figure) if t[0:1].isdigit() and t.endswith(" accelerators")
    ]
    assert sum(text.startswith("#1  ") for text in words(figure)) == 3
    boxes = [t.get_window_extent() for t in figure.axes[0].texts if t.get_text()]
    assert not any(one.overlaps(two) for one, two in itertools.combinations(boxes, 2))
    data = several.isel(plan=several.gpus.values == 16)
    names = parts_of(data, "step_time")
    parts = json.dumps({name: float(data[name][0]) for name in names})
    own = json.dumps({"data": 4, "tensor": 4})
    place = {"own": 4.5, "own_place": 7, "own_device": 5e10, "own_plan": own, "own_parts": parts}
    figure = plots.draw(data.assign(place))
    np.testing.assert_allclose(ends(figure.axes[0])[:-1], data.step_time)
    assert any(t.startswith("yours, #7  dp 4 tp 4") for t in words(figure))
    assert any(t.startswith("The best plans of llama3-8b on 16 h100-nvs8") for t in words(figure))
    with pytest.raises(InputError, match="plans: no plan of the data has a result"):
        plots.plans(data.assign(step_time=data.step_time * np.nan))


def test_a_map_fills_what_fits_and_marks_real_systems(machines):
    figure = plots.machine_map(machines)
    axes = figure.axes[0]
    assert axes.get_xlabel() == "HBM capacity [GB]"
    assert axes.get_ylabel() == "HBM bandwidth [TB/s]"
    assert axes.get_yscale() == "log"
    assert len(hatched(axes)) == 1
    told = words(figure)
    assert {"this machine", "h200"} <= set(told)
    dots = [line.get_xydata()[0].tolist() for line in axes.lines if line.get_marker() == "o"]
    assert [141.0, 4.8] in [[round(x, 3), round(y, 3)] for x, y in dots]
    least = choose.amount(float(machines.memory_least.min()), "B")
    assert f"nothing fits: needs {least}" in told
    star = next(line for line in axes.lines if line.get_marker() == "*")
    assert star.get_xydata().ravel().tolist() == pytest.approx([192.0, 8.0])
    assert any(word.startswith("tp ") for word in told)
    assert not any(w.startswith("tp ") for w in words(plots.machine_map(machines, plans=False)))
    assert plots.machine_map(machines, value="step_time").axes[-1].get_ylabel() == "step time [s]"


def test_a_map_of_todays_training_names_its_plans_and_the_tokens_of_its_days():
    axes = {
        "system.hbm_capacity": np.linspace(30e9, 120e9, 6).tolist(),
        "system.slow_bandwidth": np.geomspace(2e9, 400e9, 6).tolist(),
    }
    asked = {"model": "llama3-8b", "system": "h100-nvs8", "gpus": 8, "global_batch": 8}
    grid = jr.search("training", where="off=0,mb=1,cp=1", axes=axes, **asked)
    told = said(plots.draw(grid))
    degree = int(grid["data"].isel(dict.fromkeys(grid["data"].dims, -1)))
    assert any(f"dp {degree}" in one for one in told)
    assert "days of training on 15 T tokens" in told
    (line,) = [one for one in told if one.startswith("white lines: another plan is best beyond")]
    assert "dp data" in line


def test_a_map_of_given_plans_has_its_numbers_in_its_cells():
    data = jr.run(SWEEPS / "gpt3_one_plan.toml")
    told = said(plots.draw(data))
    days = data.training_days.where(data.feasible).values
    assert all(f"{day:.4g}" in told for day in days[np.isfinite(days)])
    assert "4 (16)" in told  # tensor ranks, and the data ranks that go with them
    assert "tensor (data in brackets)" in told
    assert not any("white lines" in one for one in told)


def test_fields_that_move_together_and_panels_of_sizes():
    hbm = {
        "system.hbm_capacity": ["80 GB", "192 GB", "384 GB"],
        "system.hbm_bandwidth": ["2 TB/s", "8 TB/s", "16 TB/s"],
    }
    rates = {"system.matrix_flops": ["312 TFLOP/s", "1 PFLOP/s", "2.5 PFLOP/s"]}
    plan = jr.Plan(**PLAN)
    data = jr.tabulate(jr.published, inputs(plan=plan), axes={"hbm": hbm, **rates})
    data = xr.concat([data, data], xr.Variable("gpus", [512, 2048]))
    titles = ["512 accelerators", "2,048 accelerators"]
    assert [a.get_title() for a in plots.draw(data).axes[:2]] == titles
    axes = plots.machine_map(data, at={"gpus": 2048}).axes[0]
    assert axes.get_ylabel() == "compute rate [PFLOP/s]"
    assert [t.get_text() for t in axes.get_xticklabels()] == ["80\n(2)", "192\n(8)", "384\n(16)"]
    with pytest.raises(InputError, match=r"machine_map: at: gpu: .* Did you mean 'gpus'"):
        plots.machine_map(data, at={"gpu": 512})


def test_what_binds_says_where_the_base_machine_is():
    axes = {
        "system.hbm_bandwidth": np.geomspace(0.2e12, 16e12, 4).tolist(),
        "system.slow_bandwidth": np.geomspace(2e9, 400e9, 4).tolist(),
    }
    asked = {"model": "gpt3", "system": "b200-nvs8", "gpus": 64, "global_batch": 64}
    data = jr.elasticities("published", axes=axes, **asked)
    told = said(plots.draw(data))
    assert any(one.startswith("What binds most: ") for one in told)
    assert "this machine" in told


@pytest.mark.parametrize("stages", [1, 32])
def test_memory_of_stages_are_bars_as_long_as_the_device(stages):
    plan = {"pp": stages, "dp": 32 // stages}
    data = jr.fit(model="llama3-8b", system="h100-nvs8", plan=plan, global_batch=128)
    made = plots.draw(data)
    (axes,) = made.axes
    np.testing.assert_allclose(ends(axes), data.device / 1e9)
    (line, *_) = (c for c in axes.collections if c.get_linestyle()[0][1])
    assert line.get_segments()[0][0, 0] == pytest.approx(float(data.capacity) / 1e9)
    answer = "It fits: " if bool(data.fits) else "It does not fit"
    assert any(text.get_text().startswith(answer) for text in made.texts)


def test_memory_of_many_points_is_that_of_their_fullest_stages():
    axes = {"recompute": ["none", "full"], "sequence": [4096, 16384], "tensor": [2, 8]}
    asked = {"model": "llama3-70b", "system": "h100-nvs8", "global_batch": 128}
    data = jr.fit_stages(plan={"pp": 4, "dp": 2}, axes=axes, **asked)
    made = plots.draw(data)
    (axes,) = made.axes
    np.testing.assert_allclose(ends(axes), data.device.max("stage").values.ravel() / 1e9)
    bold = [text.get_weight() == "bold" for text in axes.texts]
    assert bold == (~data.fits.values.astype(bool)).ravel().tolist()
    held = int(data.fits.sum())
    assert any(
        t.get_text().startswith(f"{held} of {data.fits.size} legal plans fit") for t in made.texts
    )


def test_every_stage_works_and_idles_for_the_step():
    plan = {"plan.data": 1, "plan.tensor": 1, "plan.pipeline": 2, "plan.microbatches": 4}
    asked = {"model": "mlp-xs", "system": "h200-nvs8", "global_batch": 256, **plan}
    data = jr.stages(asked)
    left, right = plots.draw(data).axes
    step = (data.busy_share + data.idle_share) * float(data.step_time)
    unit = {"[s]": 1.0, "[ms]": 1e-3, "[us]": 1e-6}[left.get_xlabel().rpartition(" ")[2]]
    np.testing.assert_allclose(np.array(ends(left)) * unit, step)
    held = ends(right)
    assert held[0] / held[1] == pytest.approx(float(data.memory[0] / data.memory[1]))
    assert [text.get_text() for text in left.get_yticklabels()] == ["stage 0", "stage 1"]
    many = data.expand_dims(recompute=["none", "full"])
    with pytest.raises(InputError, match=r"'recompute'; choose one point: --at recompute=none,"):
        plots.stages(many)


def test_every_measured_run_is_a_point():
    found = packaged_answers("simumax_b200")
    made = predicted_measured(found)
    left, right = made.axes
    drawn = [line for line in left.lines if len(line.get_xdata()) > 2]
    measured = np.sort(np.concatenate([line.get_xdata() for line in drawn]))
    np.testing.assert_allclose(measured, sorted(found["measured"]), rtol=1e-12)
    assert all(line.get_ydata()[-1] == 100.0 for line in right.lines)
    assert len(made.legends[0].get_texts()) == 2, "dense, experts"
    with pytest.raises(InputError, match="no measured step to draw"):
        predicted_measured(found[:0])


def test_names_of_plans_on_a_map_lie_apart_and_tell_the_context_degree():
    place = np.linspace(20e9, 200e9, 32)
    tensor = np.repeat([1, 2, 4, 8, 1, 2, 4, 8], 4)  # narrow regions side by side
    context = np.repeat([1, 4], 16)
    over = {"hbm_capacity": place, "hbm_bandwidth": np.linspace(1e12, 16e12, 32)}
    data = xr.Dataset(
        {
            "training_days": (tuple(over), np.add.outer(100.0 - np.arange(32), np.zeros(32))),
            "step_time": (tuple(over), np.ones((32, 32))),
            "tensor": ("hbm_capacity", tensor),
            "context": ("hbm_capacity", context),
            "pipeline": ("hbm_capacity", np.ones(32, int)),
        },
        over,
        {"roles": json.dumps(roles(jr.published, inputs(), jr.Recipe(split=jr.Split.CONTEXT)))},
    )
    for name in ("tensor", "context", "pipeline"):
        data[name].attrs |= attributes(jr.Plan.__dataclass_fields__[name].metadata)
    for name, unit in (("hbm_capacity", "B"), ("hbm_bandwidth", "B/s")):
        data[name].attrs["units"] = unit
    figure = plots.machine_map(data)
    figure.draw_without_rendering()
    named = [text for text in figure.axes[0].texts if text.get_text()]
    told = [text.get_text() for text in named]
    assert {"tp 1 pp 1", "tp 8 pp 1", "tp 2 cp 4 pp 1"} <= set(told)
    boxes = [text.get_window_extent() for text in named]
    for i, box in enumerate(boxes):
        assert not any(box.overlaps(other) for other in boxes[:i])


def test_a_map_over_a_short_list_has_a_cell_a_value(machines):
    """Between three listed capacities nothing was computed, so nothing is drawn in between."""
    listed = machines.isel(hbm_capacity=[5, 3, 9])
    axes = plots.machine_map(listed, plans=False).axes[0]
    (cells,) = (each for each in axes.collections if isinstance(each, QuadMesh))
    assert cells.get_array().shape == (listed.sizes["hbm_bandwidth"], 3)
    assert [t.get_text() for t in axes.get_xticklabels()] == ["80", "120", "200"]
    assert axes.get_xticks().tolist() == [80.0, 120.0, 200.0]
    assert axes.get_xlim() == (60.0, 240.0)
    smooth = plots.machine_map(machines, plans=False).axes[0]
    assert not any(isinstance(each, QuadMesh) for each in smooth.collections)


def test_where_nothing_fits_anywhere_the_map_says_so(machines):
    figure = plots.machine_map(machines.isel(hbm_capacity=slice(0, 2)))
    assert any(text.startswith("nothing fits: needs") for text in words(figure))
    assert len(figure.axes) == 1


def test_layers_are_bars_that_add_up():
    data = jr.layers(inputs("h200-nvs4", plan=jr.Plan(**PLAN)))
    figure = plots.draw(data)
    for axes, way in zip(figure.axes, ("forward", "backward"), strict=True):
        ends = [bar.get_x() + bar.get_width() for bar in axes.containers[-1]]
        np.testing.assert_allclose(ends, data[f"time_{way}"] * 1e3)
        assert axes.get_xlabel() == "time [ms]"
    assert figure.axes[0].get_xlim() == figure.axes[1].get_xlim()
    names = [text.get_text() for text in figure.axes[0].get_yticklabels()]
    known = json.loads(data.operation.attrs["words"])
    assert names == [known[name] for name in data.operation.values.tolist()]


def test_where_nothing_fits_at_all_every_picture_says_so(sizes):
    none = sizes.sel(gpus=[16, 64])
    line = none.sel(split="1d", system="h200-nvs8")
    for figure in (plots.lines(none), plots.plans(line), plots.plans(none.sel(gpus=16))):
        assert any(hatched(axes) for axes in figure.axes)
        figure.draw_without_rendering()


def test_memory_of_schedules_is_bold_where_it_is_beyond_the_capacity():
    data = jr.schedule(model="llama3-70b", system="h100-nvs8", global_batch=16, tp=8, pp=8)
    numbers = plots.draw(data).axes[1].texts
    limit = float(data.memory_limit) / 1e9
    assert [t.get_weight() == "bold" for t in numbers] == [
        float(t.get_text()) > limit for t in numbers
    ]


def test_a_staircase_falls_and_names_its_plans(stairs):
    figure = plots.draw(stairs)
    (axes,) = figure.axes
    steps = next(line for line in axes.lines if line.get_drawstyle() == "steps-post")
    np.testing.assert_allclose(steps.get_xdata()[:-1], stairs.memory / 1e9)
    np.testing.assert_allclose(steps.get_ydata()[:-1], stairs.step_time)
    told = words(figure)
    assert "192 GB: this machine" in told
    assert any(text.startswith("80 GB: ") for text in told)
    assert any(" tp " in text for text in told)
    days = float(stairs.training_days[3])
    late = plots.staircase(stairs, days=days).axes[0]
    dotted = next(line for line in late.lines if line.get_linestyle() == ":")
    assert dotted.get_ydata()[0] == pytest.approx(float(stairs.step_time[3]))


def test_staircases_are_told_apart_by_their_coordinates(stairs):
    both = xr.concat([stairs, stairs.assign(step_time=stairs.step_time / 2)], "step_number")
    sizes = np.repeat([1024, 2048], stairs.sizes["step_number"])
    same = np.repeat(["1d"], len(sizes))
    both = both.assign_coords(gpus=("step_number", sizes), split=("step_number", same))
    figure = plots.staircase(both)
    assert list(lines(figure.axes[0])) == ["1,024 accelerators", "2,048 accelerators"]
    with pytest.raises(InputError, match=r"staircase: days: take another step time on each"):
        plots.staircase(both, days=30.0)


def test_staircases_of_a_search_for_them_need_no_padding():
    axes = {"split": ["1d", "context"], "gpus": [512, 1024]}
    data = jr.pareto(jr.published, inputs(), axes=axes, where="pipeline >= 8")
    figure = plots.draw(data)
    drawn = lines(figure.axes[0])
    assert list(drawn) == [
        f"{split}, {size} accelerators" for split in axes["split"] for size in ("512", "1,024")
    ]
    for split, size in itertools.product(*axes.values()):
        some = data.isel(step_number=(data.split == split) & (data.gpus == size))
        line = drawn[f"{split}, {size:,} accelerators"]
        np.testing.assert_allclose(line.get_ydata()[:-1], some.step_time)


def test_memories_far_apart_are_in_powers_of_two(stairs):
    steps = np.linspace(0.0, 1.0, stairs.sizes["step_number"])
    near = stairs.assign(memory=("step_number", 20e9 * 10.0**steps))
    assert plots.staircase(near).axes[0].get_xscale() == "linear"
    far = stairs.assign(memory=("step_number", 20e9 * 30.0**steps))
    assert plots.staircase(far).axes[0].get_xscale() == "log"


def test_without_stairs_there_is_no_staircase(stairs):
    with pytest.raises(InputError, match=r"^staircase: the data have no stairs: no plan is legal"):
        plots.draw(stairs.isel(step_number=slice(0)))


REFUSED = [  # what is drawn, of which data, the error
    (lambda d: plots.draw(d, "line"), r"no such kind of picture. Did you mean 'lines'"),
    (lambda d: plots.draw(d, "zebra"), r"no such kind of picture; expected one of lines, plans"),
    (lambda d: plots.lines(d.isel(gpus=3)), r"lines: needs an axis of numbers, .* have system, sp"),
    (lambda d: plots.lines(d, "days"), r"needs: days: no such variable in the data"),
    (lambda d: plots.plans(xr.concat([d, d], "gpus")), r"plans: shows 40 points at most"),
    (lambda d: plots.machine_map(d), r"machine_map: needs two axes of numbers; the data have syst"),
    (lambda d: plots.layer_bars(d), r"layer_bars: needs the dimension"),
    (lambda d: plots.staircase(d), r"staircase: needs the dimension 'step_number'"),
    (lambda d: plots.memory_by_stage(d), r"memory_by_stage: needs the dimension 'stage'"),
]


@pytest.mark.parametrize(("drawn", "error"), REFUSED)
def test_what_cannot_be_drawn_is_said_in_one_line(sizes, drawn, error):
    with pytest.raises(InputError, match=error) as caught:
        drawn(sizes)
    assert "\n" not in str(caught.value)


def test_a_question_is_drawn_by_the_picture_of_its_module(monkeypatch):
    module = types.ModuleType("jaxroof.views.plots.rings")
    module.__spec__ = importlib.machinery.ModuleSpec(module.__name__, None)
    monkeypatch.setitem(sys.modules, module.__name__, module)
    monkeypatch.setitem(answers.MODULES, "rings", "rings")
    data = xr.Dataset({"x": 1.0}, attrs={"question": "rings"})
    module.picture = lambda given: style.figure(str(given.x.item()))
    assert plots.draw(data).get_suptitle() == "1.0"


def test_data_that_no_picture_shows():
    with pytest.raises(InputError, match="no picture shows all of the dimensions a, b, c; exp"):
        plots.draw(xr.Dataset({"x": (("a", "b", "c"), np.ones((2, 2, 2)))}))


@pytest.mark.parametrize(("choice", "kind"), [
    ({}, "lines"),
    ({"split": "1d", "system": "h200-nvs4"}, "plans"), ({"gpus": 512}, "plans"),
    ({"split": "1d", "system": "h200-nvs4", "gpus": 512}, "plans"),
])  # fmt: skip
def test_draw_picks_the_picture_that_the_dimensions_ask_for(sizes, monkeypatch, choice, kind):
    asked = []
    for name in plots.KINDS:
        monkeypatch.setitem(plots.KINDS, name, lambda data, name=name: asked.append(name))
    plots.draw(sizes.sel(choice))
    plots.draw(sizes, "speedup")  # a kind of before
    assert asked == [kind, "lines"]


@pytest.mark.parametrize(
    ("ending", "start"), [("png", b"\x89PNG"), ("svg", b"<?xml"), ("pdf", b"%PDF")]
)
def test_pictures_are_saved_by_their_ending(one_d, tmp_path, ending, start):
    figure = plots.lines(one_d)
    path = tmp_path / f"days.{ending}"
    plots.save(figure, path)
    assert path.read_bytes().startswith(start)
    assert [p.name for p in tmp_path.iterdir()] == [path.name]


def test_a_file_of_another_ending_is_refused(one_d, tmp_path):
    figure = plots.lines(one_d)
    with pytest.raises(InputError, match=r"from '.gif'; expected a name that ends in .png, .svg, "):
        plots.save(figure, tmp_path / "days.gif")
    with pytest.raises(InputError, match=r"no such directory"):
        plots.save(figure, tmp_path / "none" / "days.png")
    assert not list(tmp_path.iterdir())


def test_the_title_is_that_of_the_data(one_d):
    figure = plots.lines(one_d.assign_attrs(title="What a size buys"))
    assert figure.get_suptitle() == "What a size buys"


def test_every_picture_is_as_wide_as_the_others(sizes, machines, stairs):
    for data in (sizes, machines, stairs, sizes.sel(gpus=512)):
        assert plots.draw(data).get_figwidth() == style.WIDE


def test_global_batch_comes_from_the_run_or_an_axis(one_d):
    assert choose.field(one_d, "global_batch") == json.loads(one_d.attrs["inputs"])["global_batch"]
    moved = one_d.assign_coords(global_batch=("gpus", np.arange(len(SIZES))))
    assert choose.field(moved, "global_batch").dims == ("gpus",)


def test_without_matplotlib_it_is_said_how_to_install_it(monkeypatch):
    for name in [*sys.modules]:
        if name.startswith(("matplotlib", "jaxroof.views.plots")):
            monkeypatch.delitem(sys.modules, name)
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    with pytest.raises(InputError) as told:
        importlib.import_module("jaxroof.views.plots")
    expected = "pictures need matplotlib; install it with: pip install 'jaxroof[plot]'"
    assert str(told.value) == expected
