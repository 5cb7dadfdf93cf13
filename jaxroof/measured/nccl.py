"""Collectives measured on Perlmutter (A100, nccl-tests) beside the times of our formulas.

A ratio is model over measured: below 1 the model promises more than the machine gave.
"""

import csv
import dataclasses
import functools
import gzip
import importlib.resources
from collections.abc import Callable

import numpy as np
import xarray as xr

from jaxroof.errors import unknown
from jaxroof.estimators.training.block import links
from jaxroof.formulas import collectives
from jaxroof.hardware import System
from jaxroof.named import system as named

SOURCE = (
    "nccl-tests on Perlmutter (A100), as released with Subramanian et al. 2024 (arXiv 2410.00273); "
    "908 of 1329 rows"
)
PAIR = 100e9  # peak between two GPUs of a node, one direction [B/s]: four NVLink 3 links of 25 GB/s
LARGE = 2.0**26  # messages of this size and more are large [B]

OPERATIONS: dict[str, tuple[str, collectives.Collective]] = {  # ours: its name in the file, formula
    "all_gather": ("allgather", collectives.all_gather),
    "reduce_scatter": ("reducescatter", collectives.reduce_scatter),
    "all_reduce": ("allreduce", collectives.all_reduce),
}
BANDS = {  # sizes of messages, by name: the least one [B]
    "below 1 MiB": 0.0,
    "1 to 8 MiB": 2.0**20,
    "8 to 64 MiB": 2.0**23,
    "64 MiB to 1 GiB": LARGE,
    "1 GiB and more": 2.0**30,
}
_ORDER = {name: place for names in (OPERATIONS, BANDS) for place, name in enumerate(names)}
_ABOUT = {  # variable: unit, meaning
    "op": ("", "Operation"),
    "nodes": ("1", "Nodes of the group"),
    "gpus_per_node": ("1", "GPUs of the group in each node"),
    "size": ("B", "Full buffer: gathered, or before the reduction"),
    "band": ("", "Size class; a size on the border is in the upper one"),
    "measured": ("s", "Measured time, mean of in-place and out-of-place"),
    "modelled": ("s", "Modelled time, direct-wired nodes, every all-reduce sent twice"),
    "ratio": ("1", "Modelled over measured time"),
    "catalogue": ("s", "Modelled time, as a training step of the catalogue's system has it"),
    "catalogue_ratio": ("1", "Time of the catalogue's system over measured time"),
    "rows": ("1", "Measurements"),
    "median": ("1", "Median of the ratio"),
    "low": ("1", "Tenth percentile of the ratio"),
    "high": ("1", "Ninetieth percentile of the ratio"),
    "rms": ("1", "Root mean square of the ratio's decimal logarithm"),
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
    wired = dataclasses.replace(machine, fast_bandwidth=PAIR * peers)
    one_tier = (rows["nodes"] == 1.0) | (rows["gpus_per_node"] == 1.0)
    resent = np.where((rows["op"] == "all_reduce") & one_tier, 2.0, 1.0)
    columns = rows | {
        "band": _bands(rows["size"]),
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
    return _described(data.set_coords(["op", *whole, "size", "band"]))


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


def summary(data: xr.Dataset, *by: str, ratio: str = "ratio") -> xr.Dataset:
    """Return rows, median, low, high (10 and 90 %) and rms [log10] of a ratio over each of ``by``.

    Every name of ``by`` (op, band, nodes, gpus_per_node, size) becomes a dimension; where nothing
    was measured the floats are NaN. Without names the result is of all rows.

    >>> float(summary(chosen(comparison(), "all_gather", (8, 4), LARGE))["median"].round(3))
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
            for name, statistic in _STATISTICS.items():
                found[name][index] = statistic(data[ratio].values[mask])
    columns = {"rows": rows, **found}
    table = xr.Dataset({name: (tuple(axes), values) for name, values in columns.items()}, axes)
    return _described(table)


def markdown(table: xr.Dataset, spread: bool = True) -> str:
    """Return a summary by two names as a Markdown table: medians, and with ``spread`` 10 to 90 %.

    >>> lines = markdown(summary(comparison(), "op", "gpus_per_node"), spread=False).splitlines()
    >>> lines[0]
    '| op | gpus_per_node 1 | gpus_per_node 2 | gpus_per_node 4 |'
    """
    down, across = table["median"].dims
    heads = [str(value) for value in table[across].values]
    if across != "band":
        heads = [f"{across} {head}" for head in heads]
    lines = [f"| {down} | {' | '.join(heads)} |", "|---|" + "---|" * len(heads)]
    for i, head in enumerate(table[down].values):
        cells = [_cell(table.isel({down: i, across: j}), spread) for j in range(len(heads))]
        lines.append(f"| {head} | {' | '.join(cells)} |")
    return "\n".join(lines)


def tables() -> dict[str, str]:
    """Return the tables of the documentation's page on collectives, as Markdown, by name.

    >>> list(tables())
    ['operation and size', 'large', 'small', 'catalogue, one node', 'catalogue, one GPU a node']
    """
    data = comparison()
    large = chosen(data, smallest=LARGE)
    small = data.isel(row=data["size"].values < BANDS["1 to 8 MiB"])
    node = large.isel(row=large["nodes"].values == 1)
    lone = large.isel(row=large["gpus_per_node"].values == 1)
    by_shape = ("nodes", "gpus_per_node")
    return {
        "operation and size": markdown(summary(data, "op", "band")),
        "large": markdown(summary(large, *by_shape)),
        "small": markdown(summary(small, *by_shape)),
        "catalogue, one node": _both(node, "op", "gpus_per_node"),
        "catalogue, one GPU a node": _both(lone, "op", "gpus_per_node"),
    }


def _both(data: xr.Dataset, down: str, across: str) -> str:
    """Return the medians of the two models, one table after the other."""
    drawn = markdown(summary(data, down, across), spread=False)
    stepped = markdown(summary(data, down, across, ratio="catalogue_ratio"), spread=False)
    return f"{drawn}\n\n{stepped}"


_STATISTICS: dict[str, Callable[[np.ndarray], float]] = {
    "median": lambda ratios: float(np.median(ratios)),
    "low": lambda ratios: float(np.quantile(ratios, 0.1)),
    "high": lambda ratios: float(np.quantile(ratios, 0.9)),
    "rms": lambda ratios: float(np.sqrt(np.mean(np.log10(ratios) ** 2))),
}


@functools.cache
def _read() -> dict[str, list[str]]:
    """Return the columns of the file as they are written."""
    packed = importlib.resources.files("jaxroof.measured").joinpath("nccl_perlmutter.csv.gz")
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
    group, fast = rows["nodes"] * rows["gpus_per_node"], rows["gpus_per_node"]
    times = np.zeros(len(message))
    for name, (_, collective) in OPERATIONS.items():
        all_rows = np.asarray(collective(message, group, fast, *links(system)))
        times = np.where(rows["op"] == name, all_rows, times)
    return times


def _bands(size: np.ndarray) -> np.ndarray:
    names, least = np.array(list(BANDS)), np.array(list(BANDS.values()))
    return names[np.searchsorted(least, size, side="right") - 1]


def _place(value: str | float) -> float:
    return float(_ORDER[value] if isinstance(value, str) else value)


def _cell(group: xr.Dataset, spread: bool) -> str:
    if not int(group["rows"]):
        return ""
    median = f"{float(group['median']):.2f}"
    reach = f" ({float(group['low']):.2f} to {float(group['high']):.2f})"
    return median + reach if spread else median


def _described(data: xr.Dataset) -> xr.Dataset:
    for name in data.variables:
        unit, meaning = _ABOUT[str(name)]
        data[name].attrs = {"units": unit, "long_name": meaning} if unit else {"long_name": meaning}
    return data
