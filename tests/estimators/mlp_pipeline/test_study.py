"""The D x H x P study of an MLP: what its sweeps find, its pictures draw and its tables say."""

import matplotlib
import numpy as np
import pytest
import xarray as xr
from matplotlib.text import Text
from places import ROOT
from rich.console import Console

import jaxroof as jr
from jaxroof.catalog.lookup import mlp, system
from jaxroof.errors import InputError
from jaxroof.estimators import estimator
from jaxroof.estimators.mlp_pipeline.inputs import Inputs
from jaxroof.estimators.mlp_pipeline.recipe import Profile, Recipe
from jaxroof.views import plan_styles as styles
from jaxroof.views import plots
from jaxroof.views.plots import select as choose
from jaxroof.views.plots import style
from jaxroof.views.plots.validation import correlation
from jaxroof.views.text import all_plans as splits
from notebooks.mlp_steps import comparison

matplotlib.use("Agg")
SWEEPS = ROOT / "sweeps"
BEST = [(4, 4, 1, 1, 55313.02), (8, 2, 1, 1, 55154.66), (2, 8, 1, 1, 53323.82)]  # sheet, section 12
FIELDS = ("data", "tensor", "pipeline", "microbatches")


@pytest.fixture(scope="module")
def study():
    """Return every plan of the published study."""
    return jr.run(SWEEPS / "mlp_dhp.toml")


@pytest.fixture(scope="module")
def sizes():
    """Return every plan of mlp_styles on 1 to 16 accelerators, some refused: more take long."""
    asked = Inputs(
        model=mlp("mlp-small"), system=system("distir-b"), global_batch=8192.0, element=2.0
    )
    gpus = {"gpus": [1, 2, 4, 8, 16]}
    return jr.plans(estimator("pipeline"), asked, Recipe(Profile.B), axes=gpus)


@pytest.fixture(scope="module")
def tight(sizes):
    """Return the same with 4 GB where there are several accelerators: some plans are too large."""
    small = (sizes.memory.values > 4e9) & (sizes.gpus.values > 1)
    reason = np.where((sizes.reason.values == 0) & small, 1, sizes.reason.values).astype(np.int8)
    return sizes.assign(
        feasible=sizes.feasible & ~small,
        memory_fits=sizes.memory_fits & ~small,
        reason=("configuration", reason, sizes.reason.attrs),
    )


def at(data, gpus):
    return data.isel(configuration=data.gpus.values == gpus)


def words(figure):
    return [text.get_text() for text in figure.findobj(Text) if text.get_text()]


def marks(axes, *kinds):
    """Return the marked points of an axes' lines, those alone that have a marker of some kinds."""
    lines = [line for line in axes.lines if line.get_marker() not in ("None", None, "")]
    lines = [line for line in lines if not kinds or line.get_marker() in kinds]
    found = [tuple(point) for line in lines for point in line.get_xydata().tolist()]
    return sorted(point for point in found if np.isfinite(point).all())


def told(data):
    page = Console(width=120)
    with page.capture() as taken:
        page.print(splits.plan_table(data))
    return taken.get(), " ".join(splits.plan_sentences(data))


def test_the_study_finds_the_published_best_three(study):
    order = styles.fitting(study)[:3]
    rows = np.stack([study[name].values[order] for name in FIELDS], axis=-1).tolist()
    assert [tuple(row) for row in rows] == [row[:4] for row in BEST]
    assert study.throughput.values[order].round(2).tolist() == [row[4] for row in BEST]
    assert study.sizes["configuration"] == 52
    assert study.attrs["picture"] == "throughput_by_split"


def test_throughput_by_split_draws_every_plan_once_and_rings_the_best(study):
    figure = plots.draw(study)
    (axes,) = figure.axes
    every = sorted(zip(study.tensor.values.tolist(), study.throughput.values.tolist(), strict=True))
    ring = [line for line in axes.lines if line.get_markersize() > 15]
    assert marks(axes) == sorted([*every, *(tuple(r.get_xydata()[0]) for r in ring)])
    assert ring[0].get_xydata().tolist() == [[4.0, pytest.approx(55313.02, abs=0.01)]]
    flat = study.pipeline.values == 1
    assert marks(axes, "*") == sorted(p for p, f in zip(every_of(study), flat, strict=True) if f)
    said = words(figure)
    assert "4 data x 4 tensor ranks: 55,313" in said
    (title,) = (text for text in said if "Best:" in text)
    best = "Best: 4 data x 4 tensor ranks, 55,313 samples/s: 1.185 times the best with a pipeline"
    assert best in title.replace("\n", " ")
    assert {"D = 16", "M = 2", "M = 32", "no pipeline (P = 1)"} <= set(said)
    colours = {line.get_color() for line in axes.lines} - {style.GREY, style.BLACK}
    assert colours == set(style.COLOURS[:5])


def every_of(data):
    return list(zip(data.tensor.values.tolist(), data.throughput.values.tolist(), strict=True))


def test_the_study_is_told_in_a_table_and_two_sentences(study):
    table, said = told(study)
    first = table.splitlines()[4].split()
    assert first == ["1", "4", "4", "1", "1", "148.1", "ms", "55,313", "-", "5.4", "0.0"]
    assert len(table.strip().splitlines()) == 13
    assert "memory" not in table  # the profile has none
    assert "Best: 4 x 4 x 1 (data x tensor x pipeline), 148.1 ms a step, 55,313 samples/s" in said
    assert "the next, 8 x 2 x 1, takes 0.287 % longer" in said
    assert "data 13.6 % (16 x 1 x 1); tensor 13.7 % (1 x 16 x 1)" in said
    assert said.endswith("52 plans tried: 52 legal, all of which fit.")


@pytest.mark.slow
def test_several_points_are_told_point_by_point(tight):
    table, said = told(tight)
    rows = [line.split() for line in table.strip().splitlines()[3:]]
    assert [row[0] for row in rows] == ["1", "2", "4", "8", "16", "32", "64"]
    assert rows[-1][2:7] == ["2", "2", "16", "64", "228.5"]
    assert max(map(len, table.splitlines())) <= 80
    large, refused = int((tight.reason == 1).sum()), int((tight.reason > 1).sum())
    assert large > 0
    assert refused == 28
    assert f"420 plans tried: 392 legal, {large} of them too large; 28 refused" in said
    assert '"Stages divide the layers" fails (28)' in said
    assert "Most samples a second: 35,851 at 64 accelerators, with 2 x 2 x 16" in said
    none = tight.assign(feasible=tight.feasible & False)
    assert "No plan fits at any of 7 points" in told(none)[1]
    assert told(at(none, 8))[1].startswith("No plan fits.")


def test_memory_against_throughput_has_the_front_and_leaves_out_what_is_illegal(tight):
    part = at(tight, 16)
    part = part.assign(legal=part.legal & (part.tensor != 4))
    part = part.assign(feasible=part.feasible & part.legal)
    figure = plots.memory_throughput(part)
    (axes,) = figure.axes
    memory, rate, fits = (part[n].values for n in ("memory", "throughput", "feasible"))
    better = (memory[:, None] >= memory) & (rate[:, None] <= rate) & fits
    better &= (memory[:, None] > memory) | (rate[:, None] < rate)
    front = np.flatnonzero(fits & ~better.any(axis=1))
    assert set(styles.front(part).tolist()) == set(front.tolist())
    (stairs,) = (line for line in axes.lines if line.get_drawstyle() == "steps-post")
    scale, unit = style.human(memory[part.legal.values], "B")
    drawn = np.sort(stairs.get_xdata() * scale)
    np.testing.assert_allclose(drawn, np.sort(memory[front]), rtol=1e-12)
    points = sorted(zip((memory / scale).tolist(), rate.tolist(), strict=True))
    kept = [
        p for p, ok in zip(zip(memory / scale, rate, strict=True), part.legal, strict=True) if ok
    ]
    assert marks(axes) == sorted(kept) != points
    hollow = [line for line in axes.lines if line.get_fillstyle() == "none"]
    assert sum(len(line.get_xdata()) for line in hollow) == int((part.legal & ~part.feasible).sum())
    assert f"peak memory of the fullest device [{unit}]" in words(figure)
    looks = {n: (look["color"], look["marker"]) for n, look in plots.plan_styles.LOOKS.items()}
    assert len(set(looks.values())) == len(styles.STYLES)


def test_the_capacity_is_drawn_where_it_is_near(sizes):
    part = at(sizes, 16)
    figure = plots.memory_throughput(part)
    assert any("capacity 32 GB: far to the right" in text for text in words(figure))
    near = part.assign_coords(
        hbm_capacity=("configuration", np.full(part.sizes["configuration"], 2e9))
    )
    assert "capacity 2 GB" in words(plots.memory_throughput(near.assign_attrs(inputs="{}")))
    none = near.assign(feasible=near.feasible & False)
    said = " ".join(words(plots.memory_throughput(none))).replace("\n", " ")
    assert "No plan fits: the leanest, 8 tensor ranks x 2 stages, 128 microbatches, needs" in said
    assert "does not fit" in said


def test_best_by_style_draws_the_best_of_each_and_of_all(tight):
    figure = plots.best_by_style(tight)
    (axes,) = figure.axes
    names, counts = styles.styles_of(tight), np.unique(tight.gpus)
    rate = np.where(tight.feasible, tight.throughput, -np.inf)
    single = rate[tight.gpus.values == 1].max()
    lines = {line.get_label(): line for line in axes.lines}
    for name in styles.STYLES:
        drawn = dict(lines[name].get_xydata().tolist())
        for count in counts:
            mine = rate[(tight.gpus.values == count) & (names == name)].max(initial=-np.inf)
            expected = mine / single if np.isfinite(mine) else np.nan
            assert drawn[count] == pytest.approx(expected, rel=1e-12, nan_ok=True), (name, count)
    (whole,) = (
        line for line in axes.lines if line.get_linewidth() == plots.plan_styles.BEST["linewidth"]
    )
    best = [rate[tight.gpus.values == count].max() / single for count in counts]
    np.testing.assert_allclose(whole.get_ydata(), best, rtol=1e-12)
    assert any(
        f"{max(best):.3g} times one accelerator on 16 (" in t.replace("\n", " ")
        for t in words(figure)
    )


def pipelines():
    """Return a grid as a sweep over stages and batches has it."""
    rate = np.array([[1e3, 1.5e3, 2e3], [2e3, 3.5e3, 6e3]])
    paths = {"pipeline": [1, 2, 4], "microbatches": [1, 8, 8]}
    return xr.Dataset(
        {"throughput": (("global_batch", "stages"), rate)},
        {"global_batch": ("global_batch", [512, 1024], {"units": "sample"}), "stages": range(3)}
        | {name: ("stages", column, {"path": f"plan.{name}"}) for name, column in paths.items()},
    )


def test_isolated_scaling_has_a_panel_an_axis_and_a_line_a_batch(sizes):
    grid = pipelines()
    figure = plots.isolated_scaling(grid, sizes)
    assert [axes.get_title() for axes in figure.axes] == [
        "a pipeline alone",
        "data parallelism alone",
        "tensor parallelism alone",
        "a pipeline alone",
    ]
    lines = {line.get_label(): line for line in figure.axes[0].lines}
    assert next(iter(lines)) == "ideal"
    assert lines["ideal"].get_xdata().tolist() == lines["ideal"].get_ydata().tolist()
    for batch in grid.global_batch.values:
        rate = grid.throughput.sel(global_batch=batch).values
        np.testing.assert_allclose(
            lines[f"batch {batch:,}"].get_ydata(), rate / rate[0], rtol=1e-12
        )
    alone = (sizes.tensor.values == 1) & (sizes.pipeline.values == 1)
    (line,) = (line for line in figure.axes[1].lines if line.get_label() == "data")
    held = alone & sizes.feasible.values
    rates = sizes.throughput.values[held]
    np.testing.assert_allclose(line.get_ydata(), rates / rates[0], rtol=1e-12)


def test_simulated_steps_are_those_published_and_correlate_with_the_measured():
    data = comparison()
    assert data.sizes["row"] == 54
    assert float(np.abs(data.simulated - data.published).max()) <= 0.5001e-5
    theirs = (data.global_batch / data.published).values
    found = correlation(data.measured_throughput.values, theirs)
    assert [round(value, 4) for value in found] == [0.9311, 0.9288]
    ours = correlation(data.measured_throughput.values, data.simulated_throughput.values)
    assert np.allclose(ours, found, atol=2e-4)
    figure = plots.draw(data)
    said = " ".join(words(figure)).replace("\n", " ")
    assert "54 steps: Pearson 0.9312, Spearman 0.9289" in said
    assert "(of the published times: 0.9311, 0.9288)" in said
    assert "1.04 to 1.53 on one GPU" in said
    left, right = figure.axes
    pairs = (data.measured_throughput.values, data.simulated_throughput.values)
    assert marks(left) == sorted(zip(*(pair.tolist() for pair in pairs), strict=True))
    assert len(marks(right)) == 54
    assert left.get_xlim() == left.get_ylim()


def test_equal_values_share_their_rank():
    assert correlation(
        np.array([1.0, 1.0, 2.0]), np.array([3.0, 3.0, 9.0])
    ).spearman == pytest.approx(1)
    two = correlation(np.array([1.0, 2.0, 2.0, 3.0]), np.array([1.0, 3.0, 2.0, 4.0])).spearman
    assert two == pytest.approx(np.sqrt(0.9))


def test_points_of_named_records_are_named():
    columns = {"data": [1, 1, 2], "tensor": [1, 2, 1], "pipeline": [1, 1, 1]}
    data = xr.Dataset(
        {"model": ("configuration", [0, 0, 1], {"flag_meanings": "mlp-xs mlp-large"})},
        {name: ("configuration", values) for name, values in columns.items()}
        | {"layers": ("configuration", [8, 8, 96], {"path": "model.layers"})}
        | {"gpus": ("configuration", [1, 2, 2], {"path": "gpus", "units": "1"})},
    )
    assert [point.words for point in styles.points(data)] == [
        "mlp-xs, 1 accelerator",
        "mlp-xs, 2 accelerators",
        "mlp-large, 2 accelerators",
    ]
    assert [point.words for point in styles.points(data, ("gpus",))] == ["mlp-xs", "mlp-large"]


def of_seven(sizes):
    """Return the plans as if they were of seven numbers of accelerators."""
    numbers = np.arange(sizes.sizes["configuration"]) % 7
    return sizes.assign({"gpus": sizes.gpus.copy(data=numbers)})


REFUSALS = [  # a picture, what is drawn of (study, sizes), words of the refusal
    ("throughput_by_split", lambda study, sizes: of_seven(sizes), r"7 points of the axes; choose"),
    ("memory_throughput", lambda study, sizes: study, r"no memory; expected a profile that has"),
    ("best_by_style", lambda study, sizes: study, r"needs: gpus: no such variable"),
    ("isolated_scaling", lambda study, sizes: study.isel(configuration=[0]), r"no degree varies"),
    ("simulated_real", lambda study, sizes: study, r"needs the dimension 'row'"),
]


@pytest.mark.parametrize(("picture", "chosen", "said"), REFUSALS)
def test_a_picture_says_what_it_lacks(study, sizes, picture, chosen, said):
    with pytest.raises(InputError, match=said):
        plots.draw(chosen(study, sizes), picture)


def test_an_axis_is_cut_where_one_of_its_fields_has_a_value():
    along = {"gpus": ("configuration", [4, 8, 8]), "reason": ("configuration", [0, 1, 0])}
    data = xr.Dataset(along, {"configuration": [0, 1, 2]})
    data.reason.attrs["flag_meanings"] = "fits memory"
    assert choose.pick(data, {"gpus": "8"}, "--at").configuration.values.tolist() == [1, 2]
    assert choose.pick(data, {"reason": "memory"}, "--at").configuration.values.tolist() == [1]
    with pytest.raises(InputError, match="9: no such gpus in the data; expected one of 4, 8"):
        choose.pick(data, {"gpus": 9}, "--at")
