"""Pictures draw what the datasets hold: lines, bars, marks, what does not fit, and the words."""

import dataclasses
import importlib
import itertools
import json
import sys

import numpy as np
import pytest
import xarray as xr
from matplotlib.collections import QuadMesh
from matplotlib.text import Text

import jaxroof as jr
from jaxroof.engine.grid.dataset import attributes, roles
from jaxroof.errors import InputError
from jaxroof.records import leaves
from jaxroof.views import plots
from jaxroof.views.plots import select as choose
from jaxroof.views.plots import style

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


def test_days_are_a_line_a_system(one_d):
    figure = plots.training_days(one_d)
    drawn = lines(figure.axes[0])
    assert list(drawn) == SYSTEMS
    for name, line in drawn.items():
        assert_line(line, one_d.sel(system=name), "training_days")
    assert hatched(figure.axes[0])
    assert figure.axes[0].get_yscale() == "log"
    said = words(figure)
    assert "nothing fits below 256" in said
    assert "4×, 12× perfect scaling, a100-nvs4" in said
    assert "1,024" in [text.get_text() for text in figure.axes[0].get_xticklabels()]


def test_perfect_scaling_starts_at_the_first_size_of_the_line_named(one_d):
    def ends(figure):
        dashed = [line for line in figure.axes[0].lines if line.get_color() == style.GREY]
        return [line.get_xydata()[[0, -1]].tolist() for line in dashed]

    days = one_d.training_days.sel(system="h200-nvs8", gpus=256).item()
    figure = plots.training_days(one_d, reference="h200-nvs8", references=(4,))
    assert ends(figure) == [[[256, pytest.approx(days / 4)], [1024, pytest.approx(days / 16)]]]
    with pytest.raises(InputError, match=r"reference: h200-nvs9: .* Did you mean 'h200-nvs8'"):
        plots.training_days(one_d, reference="h200-nvs9")


def test_models_have_colours_of_their_own_and_no_perfect_scaling(one_d):
    names = ["gpt3", "gpt3-1t", "vit-era5"]
    data = one_d.assign_coords(system=names).rename(system="model")
    figure = plots.training_days(data)
    (axes,) = figure.axes
    drawn = lines(axes)
    assert list(drawn) == names
    assert len({line.get_color() for line in drawn.values()}) == 3
    assert style.GREY not in [line.get_color() for line in axes.lines]
    assert not any("perfect scaling" in text for text in words(figure))
    asked = plots.training_days(data, reference="gpt3", references=(1,))
    assert "perfect scaling, gpt3" in words(asked)


def test_splits_make_panels_and_what_never_fits_is_said(sizes):
    never = sizes.where(sizes.system != "a100-nvs4").assign_coords(sizes.coords)
    never["feasible"] = sizes.feasible & (sizes.system != "a100-nvs4")
    never["feasible"] = never.feasible & (sizes.split != "context")
    figure = plots.training_days(never)
    first, second = figure.axes
    assert first.get_title() == "1d"
    assert second.get_title() == "context"
    assert len(lines(second)) == 0
    assert "nothing fits at any size\non any line" in words(figure)
    said = " ".join(words(figure)).replace("\n", " ")
    assert "does not fit at any size: a100-nvs4" in said


def test_throughput_is_relative_to_the_first_size_that_fits(one_d):
    figure = plots.normalised_throughput(one_d)
    each = one_d.throughput / one_d.gpus
    base = each.sel(system="a100-nvs4", gpus=512)
    assert_line(
        lines(figure.axes[0])["h200-nvs8"],
        (each / base).sel(system="h200-nvs8").to_dataset(name="relative"),
        "relative",
    )
    assert figure.axes[0].get_title() == "1 is a100-nvs4 at 512"


def test_plans_and_shares_along_one_dimension(one_d):
    data = one_d.sel(system="h200-nvs8")
    upper, lower, memory = plots.plans_and_time(data).axes
    fits = data.where(data.feasible, drop=True)
    bars = {bar.get_label(): [p.get_height() for p in bar] for bar in upper.containers}
    assert list(bars) == ["data", "tensor", "pipeline", "microbatches"]
    count = 4096 / (fits.data_vars["data"] * fits.microbatch)
    np.testing.assert_allclose(np.array(bars["microbatches"])[-3:] + 0.5, count)
    np.testing.assert_allclose(np.array(bars["tensor"])[-3:] + 0.5, fits.tensor)
    np.testing.assert_allclose(lines(memory)["memory"].get_ydata()[-3:], fits.memory / 1e9)
    np.testing.assert_allclose(lines(memory)["capacity"].get_ydata(), 141.0)
    drawn = [text.get_text() for text in lower.texts if text.get_weight() == "bold"]
    assert drawn == [choose.amount(float(time), "s") for time in fits.step_time]
    tops = sum(np.nan_to_num([p.get_height() for p in bar]) for bar in lower.containers)
    np.testing.assert_allclose(tops[-3:], 100.0)
    assert hatched(upper)
    assert hatched(lower)


def test_configurations_are_named_by_the_fields_that_move():
    plan = jr.Plan(data=16, tensor=8, pipeline=8, microbatch=1, fast_tensor=8)
    together = {"plan.pipeline": [1, 64], "plan.data": [2048, 32]}
    axes = {"configuration": together}
    data = jr.tabulate(jr.published, inputs(plan=plan), axes=axes)
    figure = plots.draw(data)
    ticks = [text.get_text() for text in figure.axes[1].get_xticklabels()]
    assert ticks == ["pp 1\ndp 2,048", "pp 64\ndp 32"]
    assert "does not fit" in words(figure)


def test_a_plan_that_fits_and_is_not_legal_is_called_so():
    wrong = {"plan.tensor": [4, 5, 1, 5], "plan.pipeline": [64, 64, 1, 1]}
    own = inputs(plan=jr.Plan(**PLAN, fast_data=2))
    data = jr.tabulate(jr.published, own, axes={"configuration": wrong})
    assert data.memory_fits.values.tolist() == [True, True, False, False]
    assert not data.feasible[1:].any()
    figure = plots.plans_and_time(data)
    said = [text for text in words(figure) if text in ("not legal", "does not fit")]
    assert said == ["not legal", "does not fit"]
    bare = plots.plans_and_time(data.drop_vars("memory_fits"))
    assert {"not legal", "does not fit"} <= set(words(bare))


def test_speed_up_is_the_base_over_the_other(sizes):
    figure = plots.speedup(sizes)
    (axes,) = figure.axes
    assert axes.get_title() == "context"
    drawn = lines(axes)
    assert list(drawn) == SYSTEMS
    time = sizes.step_time.sel(system="h200-nvs8")
    ratio = time.sel(split="1d") / time.sel(split="context")
    np.testing.assert_allclose(drawn["h200-nvs8"].get_ydata(), ratio)
    later = plots.speedup(sizes.sel(split=["context", "1d"])).axes[0]
    assert later.get_title() == "context"
    turned = plots.speedup(sizes, base="context").axes[0]
    np.testing.assert_allclose(lines(turned)["h200-nvs8"].get_ydata(), 1 / ratio)
    systems = plots.speedup(sizes.sel(split="1d"), over="system", base="a100-nvs4")
    assert [axes.get_title() for axes in systems.axes] == SYSTEMS[1:]
    first = plots.speedup(sizes.sel(split="1d"), over="system")
    assert [axes.get_title() for axes in first.axes] == SYSTEMS[1:]


def test_a_map_fills_what_fits_and_marks_real_systems(machines):
    figure = plots.machine_map(machines)
    axes = figure.axes[0]
    assert axes.get_xlabel() == "HBM capacity [GB]"
    assert axes.get_ylabel() == "HBM bandwidth [TB/s]"
    assert axes.get_yscale() == "log"
    assert len(hatched(axes)) == 1
    said = words(figure)
    assert "B200" in said
    assert {"A100*", "H200*"} <= set(said)
    assert "A100*, H200*: only HBM; all else of the B200" in said
    least = choose.amount(float(machines.memory_least.min()), "B")
    assert f"nothing fits: needs {least}" in said
    star = next(line for line in axes.lines if line.get_marker() == "*")
    assert star.get_xydata().ravel().tolist() == pytest.approx([192.0, 8.0])
    assert any(word.startswith("tp ") for word in said)
    assert not any(w.startswith("tp ") for w in words(plots.machine_map(machines, plans=False)))
    assert plots.machine_map(machines, value="step_time").axes[-1].get_ylabel() == "step time [s]"


SHARED = {"B200": "b200-nvs8", "H200": "h200-nvs8", "A100": "a100-nvs4"}


@pytest.mark.parametrize(("own", "known"), SHARED.items())
def test_a_map_names_a_system_only_where_all_of_it_was_computed(machines, own, known):
    alone = {p: float(v) for p, _, v in leaves(jr.system(known), "system.")}
    said = words(plots.machine_map(machines.assign_attrs(inputs=json.dumps(alone)), plans=False))
    assert set(SHARED) & set(said) == {own}
    others = {f"{name}*" for name in SHARED if name != own}
    assert others <= set(said)
    (note,) = [w for w in said if w.endswith(f"only HBM; all else of the {own}")]
    assert set(note.partition(":")[0].split(", ")) == others
    changed = json.dumps({**alone, "system.matrix_flops": 2e15})
    said = words(plots.machine_map(machines.assign_attrs(inputs=changed), plans=False))
    assert not set(SHARED) & set(said)
    assert {f"{name}*" for name in SHARED} <= set(said)
    assert any(w.endswith("only HBM; all else of the base machine") for w in said)
    assert not any(f"all else of the {name}" in w for name in SHARED for w in said)


def test_a_map_names_what_of_a_system_its_axes_give():
    hbm = {
        "system.hbm_capacity": ["80 GB", "141 GB", "384 GB"],
        "system.hbm_bandwidth": ["2 TB/s", "4.8 TB/s", "16 TB/s"],  # not the A100's
    }
    rates = {"system.matrix_flops": ["312 TFLOP/s", "989.4 TFLOP/s", "2.5 PFLOP/s"]}
    plan = jr.Plan(**PLAN)
    data = jr.tabulate(jr.published, inputs("h200-nvs8", plan=plan), axes={"hbm": hbm, **rates})
    said = words(plots.machine_map(data))
    assert "H200" in said
    lines = [word.replace("\n", " ") for word in said]
    assert "A100*, B200*: only HBM capacity and compute rate; all else of the H200" in lines


def test_a_panel_of_a_system_is_told_by_its_name():
    axes = {
        "system": ["a100-nvs8", "b200-nvs8"],
        "system.hbm_bandwidth": ["1 TB/s", "1555 GB/s", "8 TB/s"],
        "system.hbm_capacity": ["80 GB", "192 GB"],
    }
    data = jr.tabulate(jr.published, inputs(plan=jr.Plan(**PLAN)), axes=axes)
    for panel, own in zip(plots.machine_map(data).axes, ("A100", "B200"), strict=False):
        said = [text.get_text() for text in panel.texts]
        assert set(SHARED) & set(said) == {own}
        assert {f"{other}*" for other in set(SHARED) - {own}} & set(said)


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
    said = [text.get_text() for text in named]
    assert {"tp 1 pp 1", "tp 8 pp 1", "tp 2 cp 4 pp 1"} <= set(said)
    assert {f"{name}*" for name in SHARED} <= set(said)
    boxes = [text.get_window_extent() for text in named]
    for i, box in enumerate(boxes):
        assert not any(box.overlaps(other) for other in boxes[:i])


def test_fields_that_move_together_are_written_above():
    hbm = {
        "system.hbm_capacity": ["80 GB", "192 GB", "384 GB"],
        "system.hbm_bandwidth": ["2 TB/s", "8 TB/s", "16 TB/s"],
    }
    rates = {"system.matrix_flops": ["312 TFLOP/s", "1 PFLOP/s", "2.5 PFLOP/s"]}
    plan = jr.Plan(**PLAN)
    data = jr.tabulate(jr.published, inputs(plan=plan), axes={"hbm": hbm, **rates})
    data = xr.concat([data, data], xr.Variable("gpus", [512, 2048]))
    assert [a.get_title() for a in plots.draw(data).axes[:2]] == [
        "512 accelerators",
        "2,048 accelerators",
    ]
    figure = plots.machine_map(data, at={"gpus": 2048})
    assert figure.axes[0].get_ylabel() == "compute rate [PFLOP/s]"
    (twin,) = figure.axes[0].child_axes
    assert [text.get_text() for text in twin.get_xticklabels()] == ["2", "8", "16"]
    with pytest.raises(InputError, match=r"machine_map: at: gpu: .* Did you mean 'gpus'"):
        plots.machine_map(data, at={"gpu": 512})


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


def test_machines_side_by_side(sizes):
    data = sizes.sel(gpus=256)
    figure = plots.draw(data)
    (axes,) = figure.axes
    tops = [p.get_y() + p.get_height() for p in axes.containers[-1]]
    drawn = data.step_time.transpose("system", "split").values.ravel()
    np.testing.assert_allclose(tops, drawn)
    said = words(figure)
    slowest = float(data.step_time.max() / data.step_time.min())
    assert any(text.endswith(f"\n{slowest:.2f}× as long") for text in said)
    assert set(SYSTEMS) <= set(said)
    reasons = [text for text in said if text.startswith("needs ")]
    assert reasons
    assert all(text.endswith(" of 80 GB") for text in reasons)
    assert len(hatched(axes)) == len(reasons)


def test_a_staircase_falls_and_names_its_plans(stairs):
    figure = plots.draw(stairs)
    (axes,) = figure.axes
    steps = next(line for line in axes.lines if line.get_drawstyle() == "steps-post")
    np.testing.assert_allclose(steps.get_xdata()[:-1], stairs.memory / 1e9)
    np.testing.assert_allclose(steps.get_ydata()[:-1], stairs.step_time)
    said = words(figure)
    assert "192 GB (this machine, the B200)" in said
    assert "80 GB (capacity of the A100)" in said
    assert any(" tp " in text for text in said)
    days = float(stairs.training_days[3])
    late = plots.staircase(stairs, days=days).axes[0]
    dotted = next(line for line in late.lines if line.get_linestyle() == ":")
    assert dotted.get_ydata()[0] == pytest.approx(float(stairs.step_time[3]))


def test_a_capacity_alone_makes_no_machine():
    def said(axes=None, **changes):
        machine = jr.system("h200-nvs8", **changes)
        asked = dataclasses.replace(inputs(gpus=1024), system=machine)
        return words(plots.staircase(jr.pareto(jr.published, asked, axes=axes)))

    lean = said(hbm_capacity="80 GB")
    assert "80 GB (this machine; capacity of the A100)" in lean
    assert "141 GB (capacity of the H200)" in lean
    assert "120 GB (this machine)" in said(hbm_capacity="120 GB")
    moved = said(axes={"system.matrix_flops": ["989.4 TFLOP/s", "2 PFLOP/s"]})
    assert "141 GB (this machine; capacity of the H200)" in moved


def test_lines_of_a_staircase_hold_what_its_table_says_they_hold():
    """The plan of 142.9 GB that an H200 holds lies left of the line of the H200."""
    asked = {"model": "llama3-8b", "system": "h100-nvs8", "gpus": 4, "global_batch": 8}
    said = words(plots.staircase(jr.pareto("training", **asked, where="off=0")))
    assert "150.8 GB (capacity of the H200)" in said
    assert "85.52 GB (this machine" in "".join(said)
    assert "141 GB (capacity of the H200)" not in said


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


@pytest.mark.parametrize(
    ("choice", "kind"),
    [
        ({}, "training_days"),
        ({"split": "1d"}, "training_days"),
        ({"split": "1d", "system": "h200-nvs4"}, "plans_and_time"),
        ({"gpus": 512}, "comparison"),
        ({"split": "1d", "system": "h200-nvs4", "gpus": 512}, "comparison"),
    ],
)
def test_draw_picks_the_picture_that_the_dimensions_ask_for(sizes, monkeypatch, choice, kind):
    asked = []
    for name in plots.KINDS:
        monkeypatch.setitem(plots.KINDS, name, lambda data, name=name: asked.append(name))
    plots.draw(sizes.sel(choice))
    assert asked == [kind]


def test_draw_knows_maps_layers_and_stairs(machines, stairs, monkeypatch):
    asked = []
    for name in plots.KINDS:
        monkeypatch.setitem(plots.KINDS, name, lambda data, name=name: asked.append(name))
    for data in (machines, machines.isel(hbm_bandwidth=0), stairs):
        plots.draw(data)
    assert asked == ["machine_map", "plans_and_time", "staircase"]


REFUSED = [  # what is drawn, of which data, the error
    (lambda d: plots.draw(d, "training_day"), r"no such kind of picture. Did you mean 'training_"),
    (lambda d: plots.draw(d, "zebra"), r"no such kind of picture; expected one of training_days"),
    (lambda d: plots.training_days(d.isel(gpus=3)), r"needs the dimension 'gpus'; the data have s"),
    (lambda d: plots.training_days(d.drop_vars("training_days")), r"needs: training_days: no such"),
    (lambda d: plots.plans_and_time(d), r"cannot show the dimension 'system'; choose one point"),
    (lambda d: plots.comparison(d), r"cannot show the dimension 'gpus'"),
    (lambda d: plots.machine_map(d), r"machine_map: needs two axes of numbers; the data have syst"),
    (lambda d: plots.layer_bars(d), r"layer_bars: needs: flops?|layer_bars: needs the dimension"),
    (lambda d: plots.staircase(d), r"staircase: needs the dimension 'step_number'"),
    (lambda d: plots.speedup(d, base="2d"), r"speedup: base: 2d: no such split in the data"),
    (lambda d: plots.speedup(d.sel(split="1d")), r"speedup: needs the dimension 'split'"),
]


@pytest.mark.parametrize(("drawn", "error"), REFUSED)
def test_what_cannot_be_drawn_is_said_in_one_line(sizes, drawn, error):
    with pytest.raises(InputError, match=error) as caught:
        drawn(sizes)
    assert "\n" not in str(caught.value)


def test_data_that_no_picture_shows():
    with pytest.raises(InputError, match="no picture shows all of the dimensions a, b, c; exp"):
        plots.draw(xr.Dataset({"x": (("a", "b", "c"), np.ones((2, 2, 2)))}))
    plans = jr.survey(jr.published, inputs(), gpus=1024)
    with pytest.raises(InputError, match="plans_and_time: shows 40 points at most"):
        plots.plans_and_time(plans)


@pytest.mark.parametrize(
    ("ending", "start"), [("png", b"\x89PNG"), ("svg", b"<?xml"), ("pdf", b"%PDF")]
)
def test_pictures_are_saved_by_their_ending(one_d, tmp_path, ending, start):
    figure = plots.training_days(one_d)
    path = tmp_path / f"days.{ending}"
    plots.save(figure, path)
    assert path.read_bytes().startswith(start)
    assert [p.name for p in tmp_path.iterdir()] == [path.name]


def test_a_file_of_another_ending_is_refused(one_d, tmp_path):
    figure = plots.training_days(one_d)
    with pytest.raises(InputError, match=r"from '.gif'; expected a name that ends in .png, .svg, "):
        plots.save(figure, tmp_path / "days.gif")
    with pytest.raises(InputError, match=r"no such directory"):
        plots.save(figure, tmp_path / "none" / "days.png")
    assert not list(tmp_path.iterdir())


def test_where_nothing_fits_at_all_every_picture_says_so(sizes):
    none = sizes.sel(gpus=[16, 64])
    line = none.sel(split="1d", system="h200-nvs8")
    drawn = [
        plots.training_days(none),
        plots.normalised_throughput(none),
        plots.plans_and_time(line),
        plots.speedup(none),
        plots.comparison(none.sel(gpus=16)),
    ]
    for figure in drawn:
        assert any(hatched(axes) for axes in figure.axes)
        figure.draw_without_rendering()


def test_the_title_is_that_of_the_data(one_d):
    figure = plots.training_days(one_d.assign_attrs(title="What a size buys"))
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
