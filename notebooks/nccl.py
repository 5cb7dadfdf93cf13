"""Collectives measured on Perlmutter (A100, nccl-tests) beside the times of the study's model.

A ratio is model over measured: below 1 the model promises more than the machine gave.
"""

import csv
import dataclasses
import functools
import gzip
import pathlib
from collections.abc import Callable

import jax.numpy as jnp
import numpy as np
import xarray as xr

from jaxroof.catalog.lookup import system as named
from jaxroof.catalog.system import System, network
from jaxroof.errors import unknown
from jaxroof.formulas.network import Collective, study_all_reduce, study_gather

SOURCE = (
    "nccl-tests on Perlmutter (A100), as released with Subramanian et al. 2024 (arXiv 2410.00273); "
    "908 of 1329 rows"
)
PAIR = 100e9  # peak between two GPUs of a node, one direction [B/s]: four NVLink 3 links of 25 GB/s
LARGE = 2.0**26  # messages of this size and more are large [B]

OPERATIONS: dict[str, tuple[str, Collective]] = {  # ours: its name in the file, formula
    "all_gather": ("allgather", study_gather),
    "reduce_scatter": ("reducescatter", study_gather),
    "all_reduce": ("allreduce", study_all_reduce),
}
BANDS = {  # sizes of messages, by name: the least one [B]
    "below 1 MiB": 0.0,
    "1 to 8 MiB": 2.0**20,
    "8 to 64 MiB": 2.0**23,
    "64 MiB to 1 GiB": LARGE,
    "1 GiB and more": 2.0**30,
}
PIECES = {  # what one GPU holds of a message, by name: the least one [B]
    "below 16 KiB": 0.0,
    "16 to 64 KiB": 2.0**14,
    "64 to 256 KiB": 2.0**16,
    "256 KiB to 1 MiB": 2.0**18,
    "1 to 4 MiB": 2.0**20,
    "4 MiB and more": 2.0**22,
}
_ABOUT = {  # variable: unit, meaning
    "op": ("", "Operation"),
    "nodes": ("1", "Nodes of the group"),
    "gpus_per_node": ("1", "GPUs of the group in each node"),
    "size": ("B", "Full buffer: gathered, or before the reduction"),
    "band": ("", "Class of the size; a size on the border is in the upper one"),
    "piece": ("B", "Share of the full buffer that one GPU sends or keeps"),
    "piece_band": ("", "Class of the piece; a piece on the border is in the upper one"),
    "measured": ("s", "Measured time, mean of in-place and out-of-place"),
    "modelled": ("s", "Modelled time, direct-wired nodes, every all-reduce sent twice"),
    "ratio": ("1", "Modelled over measured time"),
    "catalogue": ("s", "Modelled time, as a training step of the catalogue's system has it"),
    "catalogue_ratio": ("1", "Time of the catalogue's system over measured time"),
}


def comparison(system: System | None = None) -> xr.Dataset:
    """Return every measurement and its two modelled times over ``row``.

    ``modelled`` is the model that the study drew: among the GPUs of a node, each pair has its own
    link (Q7: 100 GB/s times the peers), and an all-reduce sends everything twice wherever it goes
    (Q3). ``catalogue`` is what a training step uses: ``system`` as it is and the published rules,
    where the fast bandwidth does not know how many GPUs share it and an all-reduce inside one
    tier costs no more than a reduce-scatter. ``ratio`` and ``catalogue_ratio`` are over measured.

    Arguments:
        system: Efficiencies, latencies, slow links; by default the catalogue's a100-nvs4. Its fast
            bandwidth counts in ``catalogue`` alone.

    >>> data = comparison()
    >>> data.sizes["row"], data.measured.attrs["units"]
    (908, 's')
    """
    rows = _measurements()
    machine = named("a100-nvs4") if system is None else system
    # A lone GPU of a node has no peer; no rule then asks for the fast bandwidth.
    peers = np.maximum(rows["gpus_per_node"] - 1.0, 1.0)
    wired = dataclasses.replace(machine, fast_bandwidth=jnp.asarray(PAIR * peers))
    one_tier = (rows["nodes"] == 1.0) | (rows["gpus_per_node"] == 1.0)
    resent = np.where((rows["op"] == "all_reduce") & one_tier, 2.0, 1.0)
    piece = rows["size"] / (rows["nodes"] * rows["gpus_per_node"])
    columns = rows | {
        "band": _classes(rows["size"], BANDS),
        "piece": piece,
        "piece_band": _classes(piece, PIECES),
        "modelled": _times(rows, rows["size"] * resent, wired),
        "catalogue": _times(rows, rows["size"], machine),
    }
    columns["ratio"] = columns["modelled"] / rows["measured"]
    columns["catalogue_ratio"] = columns["catalogue"] / rows["measured"]
    whole = ("nodes", "gpus_per_node")
    data = xr.Dataset(
        {
            name: ("row", values.astype(np.int64) if name in whole else values)
            for name, values in columns.items()
        },
        attrs={"title": "Collectives: model against measurement", "source": SOURCE},
    )
    data = data.set_coords(["op", *whole, "size", "band", "piece", "piece_band"])
    for name, (unit, meaning) in _ABOUT.items():
        data[name].attrs = {"units": unit, "long_name": meaning} if unit else {"long_name": meaning}
    return data


def chosen(
    data: xr.Dataset,
    op: str | None = None,
    shape: tuple[int, int] | None = None,
    smallest: float = 0.0,
) -> xr.Dataset:
    """Return the rows of one operation, one shape (nodes, GPUs per node), sizes from ``smallest``.

    Raises: InputError where no row is of that operation.

    >>> chosen(comparison(), "all_gather", (8, 4), LARGE).sizes["row"]
    7
    """
    kept = data["size"].values >= smallest
    if op is not None:
        if op not in OPERATIONS:
            raise unknown("", op, "operation that was measured", OPERATIONS)
        kept &= data["op"].values == op
    if shape is not None:
        kept &= (data["nodes"].values == shape[0]) & (data["gpus_per_node"].values == shape[1])
    return data.isel(row=kept)


@functools.cache
def _read() -> dict[str, list[str]]:
    """Return the columns of the file as they are written."""
    packed = pathlib.Path(__file__).with_name("nccl_perlmutter.csv.gz")
    head, *lines = csv.reader(gzip.decompress(packed.read_bytes()).decode("utf-8").splitlines())
    return {name: list(cells) for name, cells in zip(head, zip(*lines, strict=True), strict=True)}


def _measurements() -> dict[str, np.ndarray]:
    """Return op, nodes, gpus_per_node, size [B] and measured [s] of every row."""
    cells = _read()
    ours = {theirs: name for name, (theirs, _) in OPERATIONS.items()}
    names = ("num_nodes", "gpus_per_node", "size", "time_o", "time_i")
    numbers = {name: np.array(cells[name], dtype=np.float64) for name in names}
    return {
        "op": np.array([ours[name] for name in cells["op"]]),
        "nodes": numbers["num_nodes"],
        "gpus_per_node": numbers["gpus_per_node"],
        "size": numbers["size"],
        "measured": 0.5e-6 * (numbers["time_o"] + numbers["time_i"]),  # the file has microseconds
    }


def _times(rows: dict[str, np.ndarray], message: np.ndarray, system: System) -> np.ndarray:
    """Return the seconds of every row's collective."""
    fast = jnp.asarray(rows["gpus_per_node"])
    group = fast * rows["nodes"]
    times = np.zeros(len(message))
    for name, (_, collective) in OPERATIONS.items():
        all_rows = np.asarray(collective(jnp.asarray(message), group, fast, network(system)))
        times = np.where(rows["op"] == name, all_rows, times)
    return times


def _classes(values: np.ndarray, classes: dict[str, float]) -> np.ndarray:
    names, least = np.array(list(classes)), np.array(list(classes.values()))
    return names[np.searchsorted(least, values, side="right") - 1]


# ---- What the ratios come to, by operation, size and shape ---------------------------------------

_STATISTICS: dict[str, tuple[str, Callable[[np.ndarray], float]]] = {  # name: meaning, function
    "median": ("Median of the ratio", lambda ratios: float(np.median(ratios))),
    "low": ("Tenth percentile of the ratio", lambda ratios: float(np.quantile(ratios, 0.1))),
    "high": ("Ninetieth percentile of the ratio", lambda ratios: float(np.quantile(ratios, 0.9))),
    "rms": (
        "Root mean square of the ratio's decimal logarithm",
        lambda ratios: float(np.sqrt(np.mean(np.log10(ratios) ** 2))),
    ),
}
_ORDER = {name: place for names in (OPERATIONS, BANDS, PIECES) for place, name in enumerate(names)}
_HEADS = {  # name of a comparison: what heads its table, and each of its columns
    "op": ("operation", ""),
    "band": ("size", ""),
    "piece_band": ("piece a GPU", ""),
    "nodes": ("nodes", " nodes"),
    "gpus_per_node": ("GPUs a node", " a node"),
    "size": ("size [B]", " B"),
}

STUDY: tuple[tuple[str, tuple[int, int] | None, float, dict[str, float]], ...] = (
    # what the study found over its 1329 rows (sheet transformer_study, P10): operation, shape,
    # smallest message, statistics
    ("all_gather", (8, 4), 0.0, {"median": 0.909}),
    ("all_gather", (8, 4), LARGE, {"median": 0.992, "rms": 0.030}),
    ("all_gather", (16, 2), 0.0, {"median": 0.836}),
    ("all_gather", (16, 2), LARGE, {"median": 0.951, "rms": 0.031}),
    ("all_gather", None, LARGE, {"median": 0.897, "low": 0.763, "high": 1.000}),
    ("reduce_scatter", None, LARGE, {"median": 0.913, "low": 0.778, "high": 1.012}),
    ("all_reduce", None, LARGE, {"median": 0.940, "low": 0.796, "high": 1.017}),
)
_NAMES = {"median": "median", "low": "10 %", "high": "90 %", "rms": "rms of log10"}


def summary(data: xr.Dataset, *by: str, ratio: str = "ratio") -> xr.Dataset:
    """Return rows, median, low, high (10 and 90 %) and rms [log10] of a ratio over each of ``by``.

    Every name of ``by`` (op, band, piece_band, nodes, gpus_per_node, size) becomes a dimension;
    where nothing was measured the floats are NaN. Without names the result is of all rows.

    >>> large = chosen(comparison(), "all_gather", (8, 4), LARGE)
    >>> float(summary(large)["median"].round(3))
    0.992
    """
    axes = {name: sorted(set(data[name].values.tolist()), key=_place) for name in by}
    shape = tuple(len(values) for values in axes.values())
    found = {name: np.full(shape, np.nan) for name in _STATISTICS}
    rows = np.zeros(shape, dtype=np.int64)
    for index in np.ndindex(shape):
        mask = np.ones(data.sizes["row"], dtype=bool)
        for (name, values), i in zip(axes.items(), index, strict=True):
            mask &= data[name].values == values[i]
        rows[index] = mask.sum()
        if rows[index]:
            for name, (_, statistic) in _STATISTICS.items():
                found[name][index] = statistic(data[ratio].values[mask])
    dims = tuple(axes)
    columns = {"rows": (dims, rows, {"units": "1", "long_name": "Measurements"})}
    for name, (meaning, _) in _STATISTICS.items():
        columns[name] = (dims, found[name], {"units": "1", "long_name": meaning})
    return xr.Dataset(columns, {name: (name, axes[name], data[name].attrs) for name in by})


def markdown(table: xr.Dataset, spread: bool = True) -> str:
    """Return a summary by two names as a Markdown table: medians, and with ``spread`` 10 to 90 %.

    >>> lines = markdown(summary(comparison(), "op", "gpus_per_node"), spread=False).splitlines()
    >>> lines[0]
    '| operation | 1 a node | 2 a node | 4 a node |'
    """
    down, across = table["median"].dims
    after = _HEADS[str(across)][1]
    heads = [f"{value}{after}".replace("_", "-") for value in table[across].values]
    rows = [
        [
            str(head).replace("_", "-"),
            *(_cell(table.isel({down: i, across: j}), spread) for j in range(len(heads))),
        ]
        for i, head in enumerate(table[down].values)
    ]
    return _lines([_HEADS[str(down)][0], *heads], rows)


def tables() -> dict[str, str]:
    """Return the tables of the documentation's page on collectives, as Markdown, by name.

    >>> list(tables())
    ['study', 'size', 'piece', 'large', 'small', 'one tier']
    """
    data = comparison()
    several = data.isel(row=data["nodes"].values > 1)
    small = data.isel(row=data["size"].values < BANDS["1 to 8 MiB"])
    large = chosen(data, smallest=LARGE)
    shape = ("nodes", "gpus_per_node")
    return {
        "study": _beside_study(data),
        "size": markdown(summary(data, "band", "op")),
        "piece": markdown(summary(several, "piece_band", "op")),
        "large": markdown(summary(large, *shape)),
        "small": markdown(summary(small, *shape)),
        "one tier": _one_tier(large),
    }


def _beside_study(data: xr.Dataset) -> str:
    """Return the figures of the study over all rows beside ours over the rows we have."""
    rows = []
    for op, shape, smallest, statistics in STUDY:
        parts = [op.replace("_", "-")]
        parts += [f"{shape[0]} x {shape[1]}"] if shape else []
        parts += [">= 64 MiB"] if smallest else []
        ours = summary(chosen(data, op, shape, smallest))
        for name, theirs in statistics.items():
            found = [f"{theirs:.3f}", f"{float(ours[name]):.3f}", str(int(ours["rows"]))]
            rows.append([", ".join(parts), _NAMES[name], *found])
    return _lines(["ratio of", "figure", "study, all rows", "here", "rows here"], rows)


def _one_tier(large: xr.Dataset) -> str:
    """Return the medians of both models where a group stays in one node, or has lone GPUs."""
    groups = {
        "one node of 2": (large["nodes"].values == 1) & (large["gpus_per_node"].values == 2),
        "one node of 4": (large["nodes"].values == 1) & (large["gpus_per_node"].values == 4),
        "one GPU a node": large["gpus_per_node"].values == 1,
    }
    models = {"study": "ratio", "in a step": "catalogue_ratio"}
    rows = [
        [op.replace("_", "-")]
        + [
            _cell(summary(chosen(large.isel(row=mask), op), ratio=ratio), False)
            for mask in groups.values()
            for ratio in models.values()
        ]
        for op in OPERATIONS
    ]
    heads = [f"{group}, {model}" for group in groups for model in models]
    return _lines(["operation", *heads], rows)


def _lines(heads: list[str], rows: list[list[str]]) -> str:
    texts = [heads, ["---"] * len(heads), *rows]
    return "\n".join(f"| {' | '.join(cells)} |" for cells in texts)


def _place(value: str | float) -> float:
    return float(_ORDER[value] if isinstance(value, str) else value)


def _cell(group: xr.Dataset, spread: bool) -> str:
    if not int(group["rows"]):
        return "-"
    median = f"{float(group['median']):.2f}"
    reach = f" ({float(group['low']):.2f} to {float(group['high']):.2f})"
    return median + reach if spread else median
