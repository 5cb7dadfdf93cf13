"""The command `roofline`: what binds an operator, by how much, and the picture of it.

Numbers are worked out by hand from fact sheet op_rooflines, section 1, at the chips of section 2:
TPU v5e 1.97e14 FLOP/s (int8 3.94e14) and 8.1e11 B/s, H100 SXM 989.5e12 and 3.35e12, H100 NVL
835e12 and 3.9e12.
"""

import os

import numpy as np
import pytest
import xarray as xr

import jaxroof as jr

SHAPE = "--shape B=256,D=4096,F=16384"
MATMUL = f"roofline --op matmul {SHAPE} --dtypes bf16,int8,bf16 --system tpu-v5e-book"
SWEEP = "roofline --op matmul --shape D=4096,F=16384 --sweep B=1:8192"
RATE, BANDWIDTH = 1.97e14, 8.1e11
OWN = "--set system.matrix_flops='1 PFLOP/s' --set system.hbm_bandwidth='1 TB/s'"


@pytest.fixture(autouse=True)
def undrawn(request, monkeypatch):
    """Draw no sweep unasked, which takes a second, but where that is what is tested."""
    if "drawn" not in request.node.name:
        monkeypatch.setattr("importlib.util.find_spec", lambda _: None)


def work(batch, hidden, feedforward, widths):
    """Return FLOP and bytes of a product, by hand."""
    moved = np.array([batch * hidden, hidden * feedforward, batch * feedforward])
    return 2.0 * batch * hidden * feedforward, float(moved @ np.array(widths))


def threshold(hidden, feedforward, widths, balance):
    """Return the exact batch from which a product is compute bound, by hand."""
    below = 2 * hidden * feedforward - balance * (widths[0] * hidden + widths[2] * feedforward)
    return widths[1] * hidden * feedforward * balance / below


def cells(text: str) -> dict[str, list[str]]:
    """Return the words of every line of a table by the first of them."""
    lines = [line.split() for line in text.splitlines() if line.strip()]
    return {words[0]: words[1:] for words in lines}


# ---- One shape ----------------------------------------------------------------------------------


def test_the_verdict_says_what_binds_and_by_how_much(jaxroof):
    said = jaxroof(MATMUL)
    assert (said.code, said.err) == (0, "")
    assert (
        "Compute bound: arithmetic takes 1.82 times as long as memory traffic, so the whole peak "
        "is within reach. 174.4 us of arithmetic and 95.8 us of memory traffic: 174.4 us if they "
        "overlap, 270.2 us if not. It is compute bound from B = 132 on (131.4 exactly; small-B "
        "estimate 121.6)." in said.words
    )
    below = jaxroof(MATMUL.replace("B=256", "B=100")).words
    assert "Memory bound: memory traffic takes 1.29 times as long as arithmetic" in below
    assert "so 77.5 % of the peak is within reach" in below


def test_the_table_holds_every_result_with_its_unit_and_meaning(jaxroof):
    said, flops, moved = jaxroof(MATMUL).out, *work(256, 4096, 16384, (2, 1, 2))
    assert (flops, moved) == (34359738368.0, 77594624.0)
    found = cells(said)
    assert found["verdict"][:2] == ["compute", "bound"]
    for name, words in {
        "flops": "34.36 GFLOP Arithmetic of one accelerator",
        "traffic": "77.59 MB Bytes between memory and the chip",
        "math_time": "174.4 us",
        "memory_time": "95.8 us",
        "lower": "174.4 us Least time: everything overlaps",
        "upper": "270.2 us Most time: nothing overlaps",
        "intensity": "442.8 FLOP/B",
        "balance": "243.2 FLOP/B",
        "reachable": "197 TFLOP/s",
        "critical": "131.4 Size from which arithmetic binds",
        "critical_small": "121.6",
    }.items():
        assert " ".join(found[name]).startswith(words), name
    assert "link_time" not in found  # nothing is sent
    assert "critical_exists" not in found


def test_whole_names_of_dimensions_serve_as_well_as_letters(jaxroof):
    spelled = MATMUL.replace("B=256,D=4096,F=16384", "batch=256,hidden=4096,F=16384")
    assert jaxroof(spelled).out == jaxroof(MATMUL).out


CRITICAL = [  # system, formats, the small-batch threshold of the sheet (printed digits)
    ("tpu-v5e-book", "bf16", RATE / BANDWIDTH),
    ("tpu-v5e-book", "int8", 3.94e14 / BANDWIDTH / 2),
    ("tpu-v5e-book", "bf16,int8,bf16", RATE / BANDWIDTH / 2),
    ("h100-sxm", "bf16", 989.5e12 / 3.35e12),
    ("h100-nvl", "fp16", 835e12 / 3.9e12),
]
WIDTHS = {"bf16": (2, 2, 2), "fp16": (2, 2, 2), "int8": (1, 1, 1), "bf16,int8,bf16": (2, 1, 2)}


@pytest.mark.parametrize(("system", "dtypes", "small"), CRITICAL)
def test_critical_batches_are_those_of_the_sheet(system, dtypes, small, jaxroof):
    line = f"roofline --op matmul {SHAPE} --dtypes {dtypes} --system {system} -o one.json"
    said = jaxroof(line)
    assert (said.code, said.err) == (0, "wrote one.json\n")
    data = jr.read("one.json")
    np.testing.assert_allclose(data.critical_small, small, rtol=1e-12)
    widths = WIDTHS[dtypes]
    exact = threshold(4096, 16384, widths, small * 2 / widths[1])
    np.testing.assert_allclose(data.critical, exact, rtol=1e-12)
    assert f"compute bound from B = {np.ceil(exact):.0f} on" in said.words
    assert data.case.item() == f"{system} {dtypes}"


def test_int8_weights_turn_a_batch_of_200_compute_bound(jaxroof):
    line = "roofline --op matmul --shape B=200,D=8192,F=32768 --system tpu-v5e-book"
    said = jaxroof(f"{line} --dtypes bf16 --dtypes bf16,int8,bf16 -o two.csv")
    assert "tpu-v5e-book bf16: memory bound, 79.8 % of the peak within reach." in said.words
    assert "tpu-v5e-book bf16,int8,bf16: compute bound, the whole peak within reach." in said.words
    assert (
        "Fastest: tpu-v5e-book bf16,int8,bf16 (545 us at least), 1.25 times as fast as"
        in said.words
    )
    assert cells(said.out)["verdict"][:4] == ["memory", "bound", "compute", "bound"]
    found = jr.read("two.csv")
    assert found.case.values.tolist() == ["tpu-v5e-book bf16", "tpu-v5e-book bf16,int8,bf16"]
    for dtypes, lower in zip(("bf16", "bf16,int8,bf16"), found.lower.values, strict=True):
        flops, moved = work(200, 8192, 32768, WIDTHS[dtypes])
        np.testing.assert_allclose(lower, max(flops / RATE, moved / BANDWIDTH), rtol=1e-12)


def test_settings_change_the_machine_and_the_recipe(jaxroof):
    said = jaxroof(f"{MATMUL} --set system.hbm_bandwidth='1.62 TB/s'")
    assert cells(said.out)["memory_time"][:2] == ["47.9", "us"]
    said = jaxroof(f"{MATMUL} --set feed=on_chip --set 'system.on_chip_bandwidth=17.82 TB/s'")
    assert cells(said.out)["balance"][:2] == ["11.05", "FLOP/B"]
    said = jaxroof(f"{MATMUL} --format int8")
    assert cells(said.out)["math_time"][:2] == ["87.21", "us"]


def test_a_file_with_one_rate_runs_at_it(jaxroof, tmp_path):
    (tmp_path / "mine.toml").write_text('base = "tpu-v5e-book"\nmatrix_flops = "100 TFLOP/s"\n')
    said = jaxroof(f"roofline --op matmul {SHAPE} --system mine.toml --dtypes fp8")
    assert "on mine fp8" in said.words
    assert cells(said.out)["math_time"][:2] == ["343.6", "us"]


def test_what_runs_on_vectors_needs_no_matrix_peak(jaxroof):
    said = jaxroof("roofline --op dot --shape N=4096 --dtypes fp32 --system tpu-v5e-book "
                   "--set 'system.vector_flops=4 TFLOP/s'")  # fmt: skip
    assert said.code == 0
    assert "Memory bound" in said.words
    assert "No N makes it compute bound." in said.words


def test_what_is_no_roofline_is_a_table_of_results(jaxroof):
    said = jaxroof("roofline --op transformer --shape L=80,D=8192,F=28672,N=64,K=8,V=128256")
    assert (said.code, said.err) == (0, "")
    found = cells(said.out)
    assert found["mlp_parameters"][0] == f"{80 * 3 * 8192 * 28672:,}"
    assert "bound" not in said.words
    swept = jaxroof(
        "roofline --op transformer --shape D=8192,F=28672,N=64 --sweep L=1:80 -o layers.json"
    )
    assert swept.err == "wrote layers.json\n"
    assert "L = 80" in swept.words
    layers = jr.read("layers.json")
    np.testing.assert_array_equal(layers.mlp_parameters, layers.layers * 3 * 8192 * 28672)


# ---- A sweep ------------------------------------------------------------------------------------


def test_a_sweep_prints_a_dozen_sizes_and_where_it_turns(jaxroof):
    said = jaxroof(f"{SWEEP} --dtypes bf16,int8,bf16 --system tpu-v5e-book")
    assert (said.code, said.err) == (0, "")
    assert (
        "tpu-v5e-book bf16,int8,bf16: memory bound, then compute bound from B = 132 on. "
        "Balance 243.2 FLOP/B; critical B 131.4 exactly; small-B estimate 121.6." in said.words
    )
    found = cells(said.out)
    sizes = [name for name in found if name[0].isdigit()]
    assert sizes == ["1", "4", "16", "64", "256", "1,024", "4,096", "8,192"]
    assert found["1"] == ["1.999", "0.822", "82.9", "us", "83.58", "us", "memory"]
    assert found["256"] == ["442.8", "100", "174.4", "us", "270.2", "us", "arithmetic"]


def test_a_sweep_ends_before_the_critical_size_or_never_meets_one(jaxroof):
    said = jaxroof(f"{SWEEP} --system tpu-v5e-book".replace("8192", "100")).words
    assert "memory bound at every B here, compute bound from 263 on" in said
    line = (
        "roofline --op batched_matmul --shape D=4096,F=16384 --sweep B=1:64 --system tpu-v5e-book"
    )
    said = jaxroof(f"{line} --dtypes int8").words
    assert (
        "tpu-v5e-book int8: memory bound at every B. Balance 486.4 FLOP/B; no B makes it com"
        in said
    )


def test_the_data_of_a_sweep(jaxroof, tmp_path):
    line = f"{SWEEP} --dtypes bf16 --dtypes bf16,int8,bf16 --system tpu-v5e-book,h100-sxm"
    said = jaxroof(f"{line} -o sweep.nc")
    assert said.err == "wrote sweep.nc\n"
    assert "Fastest at B = 1: h100-sxm bf16,int8,bf16 (20.04 us at least), 8.27 times" in said.words
    data = jr.read("sweep.nc")
    assert dict(data.sizes) == {"case": 4, "batch": data.sizes["batch"]}
    sizes = data.batch.values
    assert np.all(sizes == np.round(sizes))
    assert np.all(np.diff(sizes) > 0)
    assert set(2 ** np.arange(14)) <= set(sizes)
    assert data.batch.attrs["symbol"] == "B"
    assert data.attrs["picture"] == "roofline"
    assert data.attrs["title"] == "matmul: B 1 to 8,192, D 4,096, F 16,384"
    one = data.sel(case="tpu-v5e-book bf16,int8,bf16")
    moved = 2 * sizes * 4096 + 4096 * 16384 + 2 * sizes * 16384
    flops = 2 * sizes * 4096 * 16384
    np.testing.assert_allclose(one.intensity, flops / moved, rtol=1e-12)
    np.testing.assert_allclose(one.upper, flops / RATE + moved / BANDWIDTH, rtol=1e-12)
    counted = jaxroof(f"{SWEEP}:5 --system tpu-v5e-book -o five.json")
    assert counted.code == 0
    assert jr.read("five.json").batch.values.tolist() == [1, 10, 91, 861, 8192]


# ---- The picture --------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def plots():
    pytest.importorskip("matplotlib")
    from jaxroof.views import plots

    return plots


def drawn(axes, label):
    return [line for line in axes.lines if line.get_label() == label]


def words(axes):
    return [text.get_text() for text in axes.texts]


def stars(axes):
    return [line.get_xydata()[0] for line in axes.lines if line.get_marker() == "*"]


def test_one_case_is_a_roof_with_named_sizes(jaxroof, plots):
    jaxroof(f"{SWEEP} --dtypes bf16,int8,bf16 --system tpu-v5e-book -o one.nc")
    data = jr.read("one.nc")
    figure = plots.draw(data)  # from the file alone
    (axes,) = figure.axes
    assert (axes.get_xscale(), axes.get_yscale()) == ("log", "log")
    assert axes.get_xlabel() == "arithmetic per byte of memory traffic [FLOP/B]"
    assert axes.get_ylabel() == "highest rate"
    roof = axes.lines[0]
    np.testing.assert_allclose(roof.get_xdata()[1], RATE / BANDWIDTH, rtol=1e-12)
    left = roof.get_xdata()[0]
    expected = [left * BANDWIDTH, RATE, RATE]
    np.testing.assert_allclose(roof.get_ydata(), expected, rtol=1e-12)
    (points,) = drawn(axes, "where everything overlaps")
    assert len(points.get_xdata()) == 14
    kept = data.sel(batch=2 ** np.arange(14))
    np.testing.assert_allclose(points.get_xdata(), kept.intensity, rtol=1e-12)
    np.testing.assert_allclose(points.get_ydata(), kept.reachable, rtol=1e-12)
    np.testing.assert_allclose(stars(axes), [[RATE / BANDWIDTH, RATE]], rtol=1e-12)
    said = words(axes)
    for text in (
        "critical B = 132",
        "ridge 243.2 FLOP/B",
        "memory bound:\n810 GB/s",
        "compute bound:\n197 TFLOP/s",
    ):
        assert text in said
    assert {"B = 1", "B = 16", "B = 8,192"} <= set(said)
    found = " ".join(text.get_text().replace("\n", " ") for text in figure.texts)
    assert "compute bound from B = 132 on" in found


def test_several_cases_lie_over_each_other(jaxroof, plots):
    line = f"{SWEEP} --dtypes bf16 --dtypes bf16,int8,bf16 --system tpu-v5e-book,h100-sxm"
    assert jaxroof(f"{line} -o over.nc").code == 0
    figure = plots.draw(jr.read("over.nc"))
    (axes,) = figure.axes
    names = [f"{s} {d}" for s in ("tpu-v5e-book", "h100-sxm") for d in ("bf16", "bf16,int8,bf16")]
    marks = [line for line in axes.lines if line.get_label().partition(":")[0] in names]
    assert [line.get_label().partition(":")[0] for line in marks] == names
    assert len({line.get_color() for line in marks}) == 4
    ridges = [RATE / BANDWIDTH, 989.5 / 3.35]
    assert sorted({round(x, 6) for x, _ in stars(axes)}) == pytest.approx(ridges)
    told = " ".join(" ".join(t.get_text().split()) for t in figure.legends[0].get_texts())
    assert all(f"B = {size} on" in told for size in (263, 132, 163, 325))
    assert "tpu-v5e-book bf16: 197 TFLOP/s, 810 GB/s" in told
    (legend,) = figure.legends
    figure.draw_without_rendering()
    box = legend.get_window_extent()
    assert not any(box.overlaps(cell.get_window_extent()) for cell in figure.axes)
    found = " ".join(text.get_text().replace("\n", " ") for text in figure.texts)
    assert "Least time at B = 1: h100-sxm bf16,int8,bf16" in found


def test_links_that_bind_make_the_slope(jaxroof, plots):
    line = "roofline --op sharded_matmul --shape B=1024,F=16384,X=4 --system tpu-v5e-book"
    said = jaxroof(f"{line} --sweep D=256:65536 -o links.nc")
    assert "link bound, then compute bound from D = 17,512 on. Link balance 2,188.9" in said.words
    (axes,) = plots.draw(jr.read("links.nc")).axes
    assert axes.get_xlabel() == "arithmetic per byte on the links [FLOP/B]"
    np.testing.assert_allclose(stars(axes), [[RATE / 9e10, RATE]], rtol=1e-12)
    assert "critical D = 17,512" in words(axes)
    one = jaxroof(f"{line.replace('B=1024', 'B=1024,D=4096')}").words
    assert "Link bound: communication takes 4.28 times as long as arithmetic" in one
    assert "Arithmetic outlasts communication from D = 17,512 on" in one


def test_a_shape_without_a_sweep_is_drawn_as_a_point(jaxroof, plots, tmp_path):
    said = jaxroof(f"{MATMUL} -o point.svg")
    assert (said.code, said.err) == (0, "wrote point.svg\n")
    assert (tmp_path / "point.svg").stat().st_size > 1000


def test_what_is_no_roofline_is_not_drawn(plots):
    with pytest.raises(jr.InputError, match="roofline: the data are not the answers of an oper"):
        plots.roofline(xr.Dataset())
    kernel = jr.evaluate("kernel", system="tpu-v5e-book", traffic=1e6, batch=1.0)
    with pytest.raises(jr.InputError, match="roofline: no roof over an operator without arithm"):
        plots.roofline(kernel)
    many = jr.evaluate("matmul", system="tpu-v5e-book", batch=1, hidden=8, feedforward=8,
                       axes={"batch": [1, 2], "hidden": [8, 16]})  # fmt: skip
    with pytest.raises(jr.InputError, match="roofline: cannot show the dimension 'hidden'"):
        plots.roofline(many)


# ---- Bad input ----------------------------------------------------------------------------------

ON = "--system tpu-v5e-book"
FIT = "--shape B=1,D=2,F=3"
BAD = [  # arguments, a part of the one line
    (f"--op matmull {FIT} {ON}", "--op: matmull: no such operator. Did you mean 'matmul'?"),
    (f"--op matmul {ON}", "--shape: B, D and F are missing; matmul takes B (rows of the input"),
    (f"--op matmul --shape B=1,F=3 {ON}", "such as B=256,D=4096,F=16384"),
    (f"--op matmul {FIT},Q=4 {ON}", "--shape: Q: no such dimension of matmul; matmul takes B ("),
    (f"--op matmul {FIT},experst=4 {ON}", "experst: no such dimension of matmul. Did you mean"),
    (f"--op matmul {FIT},B=2 {ON}", "--shape: B: given twice; expected each once"),
    (f"--op matmul --shape B=x,D=2,F=3 {ON}", "--shape: B: not a finite number, given 'x'"),
    (f"--op matmul --shape B=-1,D=2,F=3 {ON}", "--shape: B: expected a finite number above 0, g"),
    (f"--op matmul --shape B,D=2,F=3 {ON}", "--shape: expected LETTER=NUMBER, such as B=256, gi"),
    ("--op transformer --shape L=1.5,D=8,F=8,N=1", "L: expected a whole number above 0"),
    (f"--op matmul {FIT} --dtypes bf17 {ON}", "--dtypes: bf17: no such number format. Did you"),
    (f"--op matmul {FIT} --dtypes bf16,int8 {ON}", "expected one format, or three: input,weight,"),
    (f"--op matmul {FIT} --dtypes bf16 --dtypes bf16 {ON}", "--dtypes: bf16: given twice"),
    (f"--op matmul {FIT} --dtypes fp8 {ON}",
     "--dtypes: tpu-v5e-book has no matrix peak for fp8; expected one of bf16, int8, or --format"),
    (f"--op matmul {FIT}", "--system: missing; matmul runs on a machine, such as tpu-v5e"),
    (f"--op matmul {FIT} --system tpu-v55", "--system: tpu-v55: no such system. Did you mean"),
    (f"--op matmul {FIT} --system tpu-v5e,tpu-v5e", "--system: tpu-v5e: given twice"),
    (f"--op transformer --shape L=1,D=8,F=8,N=1 {ON}", "--system: transformer runs on no mach"),
    ("--op transformer --shape L=1,D=8,F=8,N=1 --dtypes int8", "takes no number formats"),
    (f"--op matmul {FIT} --set batch=3 {ON}", "batch: given twice; expected it in --shape alone"),
    (f"--op matmul {FIT} --sweep B=1:8 {ON}", "--shape: B: given twice; expected it in --sweep"),
    (f"--op matmul --shape D=2,F=3 --sweep B=8:1 {ON}", "expected FROM above 0 and below TO, gi"),
    (f"--op matmul --shape D=2,F=3 --sweep B=0:8 {ON}", "--sweep: B: expected a finite number a"),
    (f"--op matmul --shape D=2,F=3 --sweep B=1 {ON}", "--sweep: expected LETTER=FROM:TO or"),
    (f"--op matmul --shape D=2,F=3 --sweep B=1:8:1 {ON}", "--sweep: B: expected a count from 2"),
    (f"--op torus --shape rows=8,X=4 {ON} -o roof.png", "-o: torus has no roof to draw"),
    (f"--op matmul {FIT} {ON} --set B=3", "--set: B: a size; expected it in --shape"),
    (f"--op matmul {FIT} {ON} --set fed=host", "fed: no such field of MatmulInputs. Did you mean"),
    (f"--op matmul {FIT} --system tpu-v5e-book,", "--system: expected NAME or NAME,NAME, given"),
    (f"--op matmul {FIT} --format int8 {OWN}", "--format: without --system; expected it beside"),
    ("--op sharded_matmul --shape B=8,D=8,F=8,X=4 --system tpu-v5e-book,h100-sxm",
     "h100-sxm bf16: system.link_bandwidth: not given; expected a value"),
    (f"--op matmul {FIT} --sweep memory_speedup=1:8 {ON} -o roof.png",
     "roofline: the roof itself moves along memory_speedup; expected a sweep of what"),
    (f"--op sharded_matmul --shape B=8,D=8,F=8 --sweep X=1:8 {ON} -o roof.png",
     "without traffic; expected sizes that all send something over the links"),
]  # fmt: skip


@pytest.mark.parametrize(("line", "fragment"), BAD, ids=[line for line, _ in BAD])
def test_bad_input_is_one_line_and_status_two(line, fragment, jaxroof, tmp_path):
    said = jaxroof(f"roofline {line}")
    assert (said.code, said.out) == (2, "")
    assert said.err.startswith("jaxroof: ")
    assert said.err.count("\n") == 1
    assert fragment in said.err
    assert not list(tmp_path.iterdir())


def test_nothing_to_do_is_said_so(jaxroof):
    said = jaxroof("roofline --op kernel --system tpu-v5e-book,tpu-v5p-book")
    assert said.code == 0
    assert "tpu-v5e-book bf16: nothing to do. tpu-v5p-book bf16: nothing to do." in said.words
    assert cells(said.out)["verdict"][:3] == ["nothing", "to", "do"]
    sweep = jaxroof("roofline --op kernel --system tpu-v5e-book --sweep B=1:8").words
    assert "tpu-v5e-book bf16: nothing to do." in sweep
    assert "at every B" not in sweep


def test_no_size_is_critical_where_nothing_is_sent(jaxroof):
    said = jaxroof(
        "roofline --op sharded_matmul --shape B=512,D=8192,F=4096,X=1 --system tpu-v5e-book"
    )
    assert "Arithmetic outlasts" not in said.words
    assert cells(said.out)["critical"][0] == "-"


def test_a_turn_between_two_sizes_names_both(jaxroof):
    said = jaxroof(
        "roofline --op matmul --shape B=16384,D=4096 --sweep F=1:8192 --system tpu-v5e-book"
    )
    assert "memory bound up to F = 256, then compute bound from F = 294 on." in said.words
    line = "roofline --op sharded_matmul --shape D=8192,F=4096,X=4 --set strategy=gather"
    exact = jaxroof(f"{line} --sweep B=1:8192 --system tpu-v5e-book").words
    assert "link bound, then compute bound from B = 4,702 on." in exact


def test_work_that_is_known_is_swept(jaxroof):
    said = jaxroof(
        "roofline --op kernel --shape traffic='1 MB' --sweep flops=1e6:1e12 --system tpu-v5e-book"
    )
    assert "memory bound up to flops = 203.2 MFLOP, then compute bound from" in said.words


def test_a_machine_without_a_name_runs_in_its_formats(jaxroof):
    assert (
        "matmul: B 256, D 4,096, F 16,384 in bf16"
        in jaxroof(f"roofline --op matmul {SHAPE} {OWN}").words
    )


def test_files_of_one_name_are_told_apart(jaxroof, tmp_path):
    (tmp_path / "other").mkdir()
    for path in ("mine.toml", "other/mine.toml"):
        (tmp_path / path).write_text('base = "tpu-v5e-book"\nmatrix_flops = "300 TFLOP/s"\n')
    said = jaxroof(f"roofline --op matmul {SHAPE} --system mine.toml,other/mine.toml").words
    assert "mine.toml bf16: memory bound" in said
    assert "other/mine.toml bf16: memory bound" in said
    err = jaxroof(f"roofline --op matmul {SHAPE} --system mine.toml --format int8").err
    assert "--format: mine.toml has one rate alone, of no format; expected it left out" in err


# ---- Words --------------------------------------------------------------------------------------


def test_a_sweep_that_cannot_be_drawn_says_how(jaxroof, monkeypatch, tmp_path):
    monkeypatch.setattr(os, "access", lambda *_: False)
    said = jaxroof(SWEEP + " --system tpu-v5e-book")
    assert (said.code, said.err) == (0, "")
    assert said.words.endswith("-o FILE.nc, .csv or .json keeps it.")
    assert not [*tmp_path.iterdir()]


def test_the_command_is_a_function_too():
    """What is typed is what is called: the same data, drawn by the same picture."""
    data = jr.roofline(
        "matmul", "D=4096,F=16384", dtypes=["bf16", "bf16,int8,bf16"], system="tpu-v5e-book",
        sweep="B=1:1024:11",
    )  # fmt: skip
    assert data.sizes == {"case": 2, "batch": 11}
    np.testing.assert_allclose(data.critical, [262.7085700518638, 131.35], rtol=1e-3)
    with pytest.raises(jr.InputError, match="matmull: no such operator"):
        jr.roofline("matmull")
