"""The published study, searched once a model and split: its figures' values, to the digits given.

Sections P1 to P9 are those of the fact sheet transformer_study.
"""

import functools
import itertools
from collections.abc import Iterable
from typing import Any

import golden_rows as golden
import numpy as np
import pytest
import xarray as xr

import jaxroof as jr

DOMAINS = (4, 8, 64)
CHIPS = ("a100", "h200", "b200")
SYSTEMS = [f"{chip}-nvs{domain}" for chip in CHIPS for domain in DOMAINS]
GPUS = [2**power for power in range(2, 15)]


@functools.cache
def study(kind: str, model: str) -> xr.Dataset:
    """Return the ten best plans on each system at each cluster size.

    Chips by fast domains, not systems: plans are listed anew for the fast domains alone. NumPy
    answers most of them, and a compiled program those of one: both meet the published rows.
    """
    found = jr.search(
        jr.published,
        jr.Inputs(model=jr.model(golden.MODELS[model]), system=jr.system(SYSTEMS[0])),
        axes={
            "system": [f"{chip}-nvs{DOMAINS[0]}" for chip in CHIPS],
            "system.fast_domain": DOMAINS,
            "gpus": GPUS,
        },
        split=golden.SPLITS[kind],
        top=10,
        placements=True,
        executor="jax" if (kind, model) == ("2d_seqp", "vit_era5") else "numpy",
    )
    found = found.stack(node=("system", "fast_domain"), create_index=False)
    found = found.drop_vars(["system", "fast_domain"]).rename(node="system")
    return found.assign_coords(system=SYSTEMS)


def best(kind: str, model: str = "gpt3_1T", system: str = "") -> xr.Dataset:
    """Return the best plan of each system, or of one, at each cluster size."""
    found = study(kind, model).isel(rank=0)
    return found.sel(system=system) if system else found


def printed(values: Any, texts: str) -> None:
    """Assert that values, rounded to as many decimals, are printed as the numbers of a text."""
    expected = texts.split()
    decimals = [len(text.partition(".")[2]) for text in expected]
    pairs = zip(np.atleast_1d(values).tolist(), decimals, strict=True)
    assert [f"{value:.{digits}f}" for value, digits in pairs] == expected


# ---- The published result files -----------------------------------------------------------------

FILES = [  # kind, model, rows of feasible_counts, rows of top10, of which say that nothing fits
    ("1d", "gpt3_1T", 78, 420, 0),
    ("1d", "vit_era5", 78, 78, 78),
    ("2d", "gpt3_1T", 78, 460, 0),
    ("2d", "vit_era5", 78, 577, 0),
    ("2d_seqp", "gpt3_1T", 78, 420, 0),
    ("2d_seqp", "vit_era5", 78, 503, 0),
]


def at_rows(found: xr.Dataset, rows: golden.Rows, **ranks: np.ndarray) -> xr.Dataset:
    """Return the points of a study that rows name."""
    pairs = zip(rows["system"].tolist(), rows["nvs"].astype(int).tolist(), strict=True)
    systems = [SYSTEMS.index(f"{name.lower()}-nvs{domain}") for name, domain in pairs]
    places = {"system": np.array(systems, int), "gpus": np.searchsorted(GPUS, rows["n"])}
    return golden.at(found, **places, **ranks)


@pytest.mark.parametrize(("kind", "model", "counts", "ranked", "empty"), FILES)
def test_result_files(kind: str, model: str, counts: int, ranked: int, empty: int) -> None:
    """As many plans are legal and as many fit, and the ten best come in the published order."""
    rows = golden.read("feasible_counts", tp_kind=kind, model=model)
    assert golden.size(rows) == counts
    found = at_rows(study(kind, model), rows)
    np.testing.assert_array_equal(found["plans_legal"], rows["n_candidates"])
    np.testing.assert_array_equal(found["plans_feasible"], rows["n_feasible"])
    np.testing.assert_array_equal(found["feasible"].sum("rank"), np.minimum(rows["n_feasible"], 10))

    rows = golden.read("top10", tp_kind=kind, model=model)
    nothing = rows["rank"] < 0
    assert (golden.size(rows), int(np.sum(nothing))) == (ranked, empty)
    golden.check_nothing(at_rows(study(kind, model), golden.where(rows, nothing)))
    rows = golden.where(rows, ~nothing)
    held = at_rows(study(kind, model), rows, rank=rows["rank"].astype(int))
    assert held["feasible"].all()
    golden.check_plans(held, rows)
    golden.check_values(held, rows)


def test_every_result_file_is_checked() -> None:
    """The kinds and models above are all there are."""
    files = [golden.read(file) for file in ("feasible_counts", "top10")]
    counts = [sum(row[column] for row in FILES) for column in (2, 3)]
    assert counts == [golden.size(rows) for rows in files] == [468, 2458]


# ---- P1 to P3: days of training -----------------------------------------------------------------

DAYS = [  # figure, kind, model, system, gpus, days
    *(
        ("P1", "1d", "gpt3_1T", system, "512 1024 2048 4096 8192 16384", days)
        for system, days in (
            ("a100-nvs64", "671.452 314.167 161.610 85.474 46.369 25.527"),
            ("h200-nvs4", "201.539 103.362 55.155 30.951 18.766 11.809"),
            ("h200-nvs64", "197.344 101.383 53.612 29.220 16.068 9.499"),
            ("b200-nvs4", "78.490 41.687 22.916 12.883 7.833 5.237"),
            ("b200-nvs8", "78.352 41.571 22.336 12.472 7.352 4.461"),
            ("a100-nvs8", "718.581 318.494 163.460 86.881 48.592 28.157"),
        )
    ),
    ("P1", "1d", "gpt3_1T", "a100-nvs4", "512", "847.437"),
    *(
        (figure, kind, model, system, "512 4096 16384", days)
        for figure, kind, model, system, days in (
            ("P2", "2d", "gpt3_1T", "a100-nvs4", "648.392 89.023 30.187"),
            ("P2", "2d", "gpt3_1T", "h200-nvs4", "187.380 28.648 11.625"),
            ("P2", "2d", "gpt3_1T", "b200-nvs64", "76.400 11.450 4.004"),
            ("P2", "2d_seqp", "gpt3_1T", "b200-nvs8", "77.843 11.965 4.086"),
            ("P2", "2d_seqp", "gpt3_1T", "a100-nvs64", "606.673 79.992 22.330"),
            ("P3", "2d", "vit_era5", "a100-nvs8", "257.780 32.009 8.003"),
            ("P3", "2d", "vit_era5", "a100-nvs64", "187.543 23.385 5.847"),
            ("P3", "2d", "vit_era5", "b200-nvs4", "52.343 6.544 1.637"),
            ("P3", "2d", "vit_era5", "b200-nvs64", "26.702 3.338 0.835"),
            ("P3", "2d_seqp", "vit_era5", "a100-nvs4", "264.157 33.811 9.131"),
            ("P3", "2d_seqp", "vit_era5", "b200-nvs8", "30.755 3.971 1.085"),
            ("P3", "2d_seqp", "vit_era5", "b200-nvs64", "25.999 3.339 0.887"),
        )
    ),
]


@pytest.mark.parametrize(("figure", "kind", "model", "system", "gpus", "days"), DAYS)
def test_days(figure: str, kind: str, model: str, system: str, gpus: str, days: str) -> None:
    """Days of training: 1e12 tokens of a language model, 80 epochs of ERA5."""
    sizes = [int(size) for size in gpus.split()]
    printed(best(kind, model, system)["training_days"].sel(gpus=sizes), days)


FIRST = [  # kind, model, first sizes on which a plan fits an A100, an H200 and a B200
    ("1d", "gpt3_1T", (512, 256, 128)),
    ("2d", "gpt3_1T", (256, 128, 128)),
    ("2d_seqp", "gpt3_1T", (512, 256, 128)),
    ("1d", "vit_era5", (None, None, None)),
    ("2d", "vit_era5", (64, 32, 32)),
    ("2d_seqp", "vit_era5", (256, 64, 32)),
]


@pytest.mark.parametrize(("kind", "model", "first"), FIRST)
def test_first_size_that_fits(kind: str, model: str, first: tuple[int | None, ...]) -> None:
    """The same in every fast domain, and all larger clusters fit; 1D never holds ERA5."""
    fits = best(kind, model)["feasible"].transpose("system", "gpus").values
    sizes = [size for size in first for _ in DOMAINS]
    expected = [[size is not None and gpus >= size for gpus in GPUS] for size in sizes]
    np.testing.assert_array_equal(fits, expected)


# ---- P5: the best plan --------------------------------------------------------------------------
#
# The ratios of P4, P6 and of the trends follow from the ranked rows of the result files above.


BARS = [  # result, SI size of its unit, values at 128 .. 16384
    ("tensor", 1.0, "8 4 2 2 4 4 8 8"),
    ("pipeline", 1.0, "16 64 128 128 128 128 64 64"),
    ("data", 1.0, "1 1 2 4 4 8 16 32"),
    ("microbatches", 1.0, "4096 4096 2048 1024 1024 512 256 128"),
    ("memory", golden.GIGA, "182.91392512 150.20376064 187.04703488 175.24994048"
     " 101.04728064 98.09789184 66.40396672 65.66656192"),
    ("fast_tensor", 1.0, "8 4 2 2 4 4 8 8"),
    ("fast_data", 1.0, "1 1 2 2 1 1 1 1"),
    ("fast_pipeline", 1.0, "1 2 2 2 2 2 1 1"),
    ("time_tensor", 1.0, "42.76500708 8.67241009 1.40444168 0.70222084"
     " 1.08405126 0.54202563 0.66820324 0.33410162"),
    ("share_tensor", 0.01, "16.1 7.5 2.5 2.3 6.7 6.0 12.5 10.3"),
    ("share_bubble", 0.01, "0.4 1.5 5.8 11.0 11.0 19.7 19.4 31.9"),
]  # fmt: skip


@pytest.mark.parametrize(("result", "unit", "expected"), BARS)
def test_best_plan_and_its_parts(result: str, unit: float, expected: str) -> None:
    """P5: GPT-3 1T on B200 in fast domains of 8, from the first size that fits."""
    found = best("1d", system="b200-nvs8").sel(gpus=slice(128, None))
    found = found.assign(
        microbatches=4096 / (found["data"] * found["microbatch"]),
        share_tensor=found["time_tensor"] / found["step_time"],
        share_bubble=found["time_bubble"] / found["step_time"],
    )
    printed(found[result] / unit, expected)


# ---- P7 and P8: maps ----------------------------------------------------------------------------


def test_smallest_need_of_the_map() -> None:
    """P7: some plan fits at every point, since the leanest at 8192 needs less than 80 GB."""
    found = best("1d", system="b200-nvs8").sel(gpus=8192)
    printed(found["memory_least"] / golden.GIGA, "36.858")


CHAIN = ["a100-nvs8", "h200-nvs8", "b200-nvs8", "b200-next"]
SEGMENTS = [  # path, values of a segment, SI size of its unit, values of the axis
    ("hbm_capacity", 4, golden.GIGA, "80 100.333 120.667 141 158 175 192 256 320 384"),
    ("matrix_flops", 8, golden.TERA, "312 408.771 505.543 602.314 699.086 795.857 892.629 989.4"
     " 1205.2 1421 1636.8 1852.6 2068.4 2284.2 2500 2678.571 2857.143 3035.714 3214.286 3392.857"
     " 3571.429 3750"),
]  # fmt: skip


def test_axes_between_systems() -> None:
    """P8: equal steps from one system to the next."""
    inputs = jr.Inputs(model=jr.model("gpt3-1t"), system=jr.system("b200-nvs8"), gpus=4)
    axes = {f"system.{field}": jr.between(CHAIN, count) for field, count, *_ in SEGMENTS}
    found = jr.search(jr.published, inputs, axes=axes)
    for field, _, unit, expected in SEGMENTS:
        printed(found[field].values / unit, expected)


# ---- P9: configurations at fixed degrees --------------------------------------------------------

DEGREES = ("data", "tensor", "context", "pipeline", "microbatch", "panels")
CASES = {  # sweep: kind, model, configurations by DEGREES
    "a": ("1d", "gpt3_1T", [(2048 // 2**i, 8, 1, 2**i, 1, 1) for i in range(8)]),
    "b": ("2d", "gpt3_1T", [
        *((512, tensor, 32 // tensor, 1, 8, 8) for tensor in (32, 8, 4, 1)),
        *((16, tensor, 8 // tensor, 128, 1, 8) for tensor in (8, 4, 2, 1)),
    ]),
    "c": ("2d_seqp", "gpt3_1T", [
        *((512, tensor, 32 // tensor, 1, 8, 1) for tensor in (32, 8, 4, 1)),
        *((16, tensor, 8 // tensor, 128, 1, 1) for tensor in (8, 4, 2, 1)),
    ]),
    "d": ("2d_seqp", "vit_era5", [
        (data, tensor, 16 // tensor, pipeline, 1, 1)
        for data, pipeline in ((512, 2), (64, 16)) for tensor in (16, 8, 4, 2, 1)
    ]),
}  # fmt: skip


@functools.cache
def placed(sweep: str) -> xr.Dataset:
    """Return each configuration of a sweep on 16384 B200, placed the fastest way in domains of 8.

    Neither memory nor any other rule is asked, but that the placement fills the fast domains.
    """
    kind, model, configurations = CASES[sweep]
    fast = [four for four in itertools.product((1, 2, 4, 8), repeat=4) if np.prod(four) == 8]
    plans = np.array([(*one, *four) for one in configurations for four in fast], dtype=float).T
    fields = (*DEGREES, *(f"fast_{degree}" for degree in DEGREES[:4]))
    found = jr.tabulate(
        jr.published,
        jr.Inputs(
            model=jr.model(golden.MODELS[model]),
            system=jr.system("b200-nvs8"),
            plan=jr.Plan(**dict.fromkeys(fields, 1.0)),
        ),
        axes={"one": {f"plan.{f}": column for f, column in zip(fields, plans, strict=True)}},
        split=golden.SPLITS[kind],
    )
    found = found.assign({f: ("one", column) for f, column in zip(fields, plans, strict=True)})
    legal = found["placement_divides"] & found["placement_fills_domain"]
    times = found["step_time"].where(legal, np.inf).values.reshape(len(configurations), len(fast))
    return found.isel(one=np.arange(len(configurations)) * len(fast) + times.argmin(axis=1))


def significant(values: xr.DataArray, texts: Iterable[str]) -> None:
    """Assert values as printed to five significant digits."""
    assert [f"{value:.5g}" for value in values.values.tolist()] == list(texts)


STAGES = [  # pipeline, fast tensor, data and pipeline, times [s] and memory [GB]: P9 (a)
    "  1 1,8,1 4.6881 561.2  2.756   0       0.2165   0",
    "  2 2,4,1 4.43   309.5  1.3934  0.77761 0.54193  0.001538",
    "  4 4,2,1 4.0679 183.65 0.71205 0.9115  0.72577  0.0030759",
    "  8 8,1,1 3.7713 120.73 0.3341  0.89941 0.81612  0.0061519",
    " 16 8,1,1 3.4285 89.264 0.3341  0.96653 0.40007  0.012304",
    " 32 8,1,1 3.2787 73.532 0.3341  1.0047  0.19972  0.024607",
    " 64 8,1,1 3.2333 65.667 0.3341  1.033   0.10147  0.049215",
    "128 8,1,1 3.2665 61.734 0.3341  1.0656  0.052822 0.09843",
]


def test_stages_at_a_tensor_degree_of_8() -> None:
    """P9 (a): the best number of stages is inside the range, and moves the placement."""
    found = placed("a")
    stages, fast, *columns = zip(*(line.split() for line in STAGES), strict=True)
    assert [f"{n:.0f}" for n in found["pipeline"].values] == list(stages)
    ours = zip(*(found[f"fast_{f}"].values for f in ("tensor", "data", "pipeline")), strict=True)
    assert [",".join(f"{n:.0f}" for n in three) for three in ours] == list(fast)
    results = ("step_time", "memory", "time_tensor", "time_bubble", "time_data", "time_pipeline")
    for result, texts in zip(results, columns, strict=True):
        significant(found[result] / (golden.GIGA if result == "memory" else 1.0), texts)
    significant(found["time_compute"], ["1.7155"] * 8)
    assert not found["time_memory"].any()


GRIDS = [  # sweep, step times [s]: P9 (b) to (d)
    ("b", "5.8506 6.541 8.0157 14.585 3.1922 9.5566 17.342 33.61"),
    ("c", "3.2418 3.5789 4.7689 19.007 3.2663 3.033 2.9922 3.1235"),
    ("d", "14.767 13.89 13.71 13.633 13.84 16.394 15.426 15.224 15.129 15.095"),
]


@pytest.mark.parametrize(("sweep", "expected"), GRIDS)
def test_grids_at_a_fixed_number_of_ranks(sweep: str, expected: str) -> None:
    """P9: one side of the grid against the other."""
    significant(placed(sweep)["step_time"], expected.split())


@pytest.mark.parametrize("sweep", ["b", "c"])
def test_grids_keep_to_their_fast_domains(sweep: str) -> None:
    """P9: the tensor ranks come first, and data ranks and stages are left outside."""
    found = placed(sweep)
    ours = zip(found["fast_tensor"].values, found["fast_context"].values, strict=True)
    pairs = "(8,1)(2,4)(1,8)(1,8)(8,1)(4,2)(2,4)(1,8)"
    assert "".join(f"({a:.0f},{b:.0f})" for a, b in ours) == pairs
    assert (found["fast_data"] == 1).all()
    assert (found["fast_pipeline"] == 1).all()
