"""What the ratios of model to measurement come to, by operation, size and shape."""

from collections.abc import Callable

import numpy as np
import xarray as xr

from jaxroof.validation.nccl import (
    BANDS,
    LARGE,
    OPERATIONS,
    PIECES,
    chosen,
    comparison,
)

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
