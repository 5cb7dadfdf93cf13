"""The golden rows, and what their columns are in our records: our names, SI units."""

import csv
import functools
import gzip
from collections.abc import Iterable
from typing import Any

import numpy as np
import xarray as xr
from places import GOLDEN

import jaxroof as jr

FOLDER = GOLDEN / "transformer"
Rows = dict[str, np.ndarray]  # columns of numbers, NaN where a cell is empty, or of texts

TERA, GIGA = 1e12, 1e9
SPLITS = {"1d": jr.Split.ONE_D, "2d": jr.Split.SUMMA, "2d_seqp": jr.Split.CONTEXT}  # by tp_kind
MODEL = {"depth": "layers", "e": "hidden", "f": "feedforward", "h": "heads", "l": "sequence"}
MODELS = {"gpt3_1T": "gpt3-1t", "vit_era5": "vit-era5"}  # where no shape is given
SYSTEM = {  # golden column: ours, SI size of its unit
    "matrix_flops_fp16": ("matrix_flops", TERA),
    "vector_flops_fp16": ("vector_flops", TERA),
    "hbm_bandwidth": ("hbm_bandwidth", GIGA),
    "hbm_capacity": ("hbm_capacity", GIGA),
    "nvlink_bandwidth": ("fast_bandwidth", GIGA),
    "nvlink_eff": ("fast_efficiency", 1.0),
    "nvlink_latency": ("fast_latency", 1.0),
    "ib_bandwidth": ("slow_bandwidth", GIGA),
    "ib_eff": ("slow_efficiency", 1.0),
    "ib_latency": ("slow_latency", 1.0),
    "nic_factor": ("nics", 1.0),
}
CHANGED = {  # what stands behind the + of a system's name
    "": {},
    "nic0.5": {"nics": 0.5},
    "nic2": {"nics": 2.0},
    "slowhbm": {"hbm_bandwidth": 900e9},
    "bigcap": {"hbm_capacity": 1000e9},
    "fastib": {"slow_bandwidth": 400e9, "slow_latency": 1e-6},
}
PLAN = {  # in the order of the golden plan tuples
    "dp": "data", "tp1": "tensor", "tp2": "context", "pp": "pipeline", "mbs": "microbatch",
    "nb": "panels", "nv_tp1": "fast_tensor", "nv_tp2": "fast_context", "nv_dp": "fast_data",
    "nv_pp": "fast_pipeline",
}  # fmt: skip


def read(name: str, **chosen: Any) -> Rows:
    """Return the columns of a golden file, of the rows whose columns equal what is chosen."""
    return only(_read(name), **chosen)


@functools.cache
def _read(name: str) -> Rows:
    with gzip.open(FOLDER / f"{name}.csv.gz", "rt", newline="") as file:
        head, *lines = csv.reader(file)
    columns = zip(*lines, strict=True)
    return {key: _column(cells) for key, cells in zip(head, columns, strict=True)}


def _column(cells: Iterable[str]) -> np.ndarray:
    cells = list(cells)
    try:
        return np.array([float(cell or "nan") for cell in cells])  # float() of a repr is exact
    except ValueError:
        return np.array(cells)


def size(rows: Rows) -> int:
    """Return the number of rows."""
    return len(next(iter(rows.values())))


def where(rows: Rows, mask: np.ndarray) -> Rows:
    """Return the rows that a mask keeps, or that indices name."""
    return {key: column[mask] for key, column in rows.items()}


def only(rows: Rows, **chosen: Any) -> Rows:
    """Return the rows whose columns equal what is chosen."""
    mask = np.ones(size(rows), bool)
    for key, value in chosen.items():
        mask &= rows[key] == value
    return where(rows, mask)


def distinct(rows: Rows, *keys: str) -> tuple[Rows, np.ndarray]:
    """Return the distinct rows of some columns, and which of them every row is."""
    seen: dict[Any, int] = {}
    keyed = zip(*(rows[key].tolist() for key in keys), strict=True)
    number = np.array([seen.setdefault(row, len(seen)) for row in keyed], dtype=np.int64)
    return where({key: rows[key] for key in keys}, np.unique(number, return_index=True)[1]), number


def joined(*tables: Rows) -> Rows:
    """Return the rows of several tables with the same columns, one after the other."""
    return {key: np.concatenate([rows[key] for rows in tables]) for key in tables[0]}


def model(rows: Rows) -> jr.Model:
    """Return the models of some rows, a column each field; without a depth, of one layer."""
    shape = {"depth": np.ones(size(rows)), **rows}
    return jr.Model(**{field: shape[key] for key, field in MODEL.items()})


@functools.cache
def _systems() -> dict[str, dict[str, float]]:
    rows = read("systems")
    return {
        name: {field: float(rows[key][i]) * unit for key, (field, unit) in SYSTEM.items()}
        for i, name in enumerate(rows["system"].tolist())
    }


def system_columns(names: np.ndarray) -> dict[str, np.ndarray]:
    """Return the fields of golden systems, such as B200+slowhbm, less their fast domain."""
    parts = [name.partition("+") for name in names.tolist()]
    found = [_systems()[part] | CHANGED[change] for part, _, change in parts]
    return {field: np.array([one[field] for one in found]) for field, _ in SYSTEM.values()}


def system(rows: Rows) -> jr.System:
    """Return the systems of some rows, a column each field; their nvs is the fast domain."""
    return jr.System(**system_columns(rows["system"]), fast_domain=rows["nvs"])


def plans(rows: Rows) -> np.ndarray:
    """Return the plans of some rows, [row, field of PLAN]; a golden nb of 0 is one panel."""
    return np.stack([np.maximum(rows[key], 1.0 * (key == "nb")) for key in PLAN], axis=1)


def listed(column: np.ndarray) -> np.ndarray:
    """Return the numbers of cells that are lists, such as 8;1, [row, place in the list]."""
    return np.array([[float(part) for part in str(c).split(";")] for c in column.tolist()])


def agree(
    found: Any,
    expected: Any,
    rtol: float,
    floor: Any = 0.0,
    says: str = "",
    rows: Rows | None = None,
) -> None:
    """Assert |found - expected| <= max(rtol |expected|, floor) at every row; NaN never agrees."""
    found, expected, floor = np.broadcast_arrays(found, expected, floor)
    error = np.abs(found - expected)
    allowed = np.maximum(rtol * np.abs(expected), floor)
    wrong = np.flatnonzero(~(error <= allowed))
    if len(wrong):
        first = wrong[0]
        row = {} if rows is None else {key: column[first].item() for key, column in rows.items()}
        raise AssertionError(
            f"{says}: {len(wrong)} of {len(error)} rows differ, the first of them "
            f"{found[first]!r}, expected {expected[first]!r} within {allowed[first]:.3g}: {row}"
        )


VALUES = [  # golden column, ours, SI size of its unit, rtol, floor as a share of the step time
    ("throughput", "throughput", 1.0, 1e-12, 0.0),
    ("t", "step_time", 1.0, 1e-12, 0.0),
    ("mem", "memory", GIGA, 1e-12, 0.0),
    ("wts_mem", "memory_weights", GIGA, 1e-12, 0.0),
    ("wts_mem", "memory_gradients", GIGA, 1e-12, 0.0),
    ("wts_optimizer_states_mem", "memory_optimizer", GIGA, 1e-12, 0.0),
    ("acts_mem", "memory_activations", GIGA, 1e-12, 0.0),
    ("t_comp", "time_compute", 1.0, 1e-12, 1e-12),
    ("t_mem", "time_memory", 1.0, 1e-12, 1e-12),
    ("t_tp_comm", "time_tensor", 1.0, 1e-12, 1e-12),
    ("t_dp_comm", "time_data", 1.0, 1e-12, 1e-12),
    ("t_pp_comm", "time_pipeline", 1.0, 1e-12, 1e-12),
    ("t_bubble", "time_bubble", 1.0, 1e-12, 1e-12),
    ("flops_per_gpu", "flops", TERA, 1e-12, 0.0),
]
FIELDS = list(PLAN.values())


def check_values(found: Any, rows: Rows) -> None:
    """Assert every result of our plans against rows in the same order."""
    for column, field, unit, rtol, share in VALUES:
        floor = share * rows["t"]
        agree(np.asarray(found[field]), rows[column] * unit, rtol, floor, says=column, rows=rows)


def check_plans(found: Any, rows: Rows) -> None:
    """Assert that our plans are those of rows in the same order."""
    ours = np.stack([np.asarray(found[field]) for field in FIELDS], axis=1)
    np.testing.assert_array_equal(ours, plans(rows))


def check_nothing(found: xr.Dataset) -> None:
    """Assert that where nothing fits there is no plan and no result."""
    assert not found["feasible"].any()
    assert all((found[field] == -1).all() for field in FIELDS)
    assert all(found[field].isnull().all() for _, field, *_ in VALUES)


def at(found: xr.Dataset, **places: np.ndarray) -> xr.Dataset:
    """Return the points of a grid that rows name, one index of each dimension a row."""
    return found.isel({name: xr.Variable("row", index) for name, index in places.items()})


def networks(name: str) -> list[dict[str, str]]:
    """Return the rows of a golden file of networks, such as presets."""
    with gzip.open(GOLDEN / "networks" / f"{name}.csv.gz", "rt") as file:
        return list(csv.DictReader(file))
