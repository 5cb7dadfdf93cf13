"""The rows of measured steps: model, plan and software as numbers, and the times of the sheet."""

import csv
import functools
import gzip
from typing import NamedTuple

import numpy as np
from places import GOLDEN

from jaxroof.engine.runs.row_stream import RowGroup
from jaxroof.validation.rows import taken
from jaxroof.validation.sources import packaged_rows

CHIPS = {  # of a row -> system of tests/golden/hardware/systems.csv, generation
    "a100-40": ("a100-40-sxm", "ampere"),
    "a100-80": ("a100-80-sxm", "ampere"),
    "h100": ("h100-80-sxm", "hopper"),
    "h200": ("h200-141-sxm", "hopper"),
    "b200": ("b200-180-sxm", "blackwell"),
    "gb200": ("gb200-nvl72", "blackwell"),
    "gb300": ("gb300-nvl72", "blackwell-ultra"),
}
PLAN = ("tensor", "pipeline", "data", "context", "interleave", "microbatch", "microbatches")
MODEL = {  # field -> column
    **{n: n for n in ("layers", "hidden", "heads", "kv_heads", "head_size", "gated")},
    **{n: n for n in ("feedforward", "vocabulary", "experts", "q_rank", "kv_rank")},
    "active_experts": "topk",
    "expert_feedforward": "expert_ffn",
    "shared_feedforward": "shared_ffn",
    "first_dense_layers": "dense_layers",
    "mtp_layers": "mtp",
}
SOFTWARE = {
    **{n: n for n in ("flash", "old", "dropout", "bias", "loss_bytes", "scatter", "fused", "host")},
    **{n: n for n in ("early_stop", "slow_node", "year", "dedup", "fp8", "fp4")},
    "tensor_overlap": "tp_overlap", "tensor_async": "tp_async",
    "pipeline_overlap": "pp_overlap", "data_overlap": "dp_overlap", "reduce_bytes": "grad_bytes",
    "step_share": "step", "micro_scaled": "mxfp8",
}  # fmt: skip


class Steps(NamedTuple):
    """Measured steps of one kind of chip, and the times that the sheet gives, as columns."""

    names: list[str]
    groups: list[RowGroup]  # rows with the same choices as columns of inputs
    expected: dict[str, np.ndarray]


@functools.cache
def rows() -> tuple[dict[str, str], ...]:
    """Return the rows as written."""
    with gzip.open(GOLDEN / "training_today" / "prototype_rows.csv.gz", "rt") as file:
        return tuple(csv.DictReader(file))


@functools.cache
def steps(kind: str) -> Steps:
    """Return the measured steps of one kind of chip as the packaged rows ask them of ``training``.

    tests/validation/test_steps.py holds that these inputs are those of the sheet.
    """
    some = [row for row in rows() if row["chip"] == kind]
    places = {row["row_id"]: place for place, row in enumerate(some)}
    asked = packaged_rows("steps")
    names = asked.note("id")
    groups = []
    for group in asked.groups:
        here = np.array([n for n, row in enumerate(group.rows) if names[row] in places], int)
        if len(here):
            part = taken(group, here)
            known = np.array([places[names[row]] for row in part.rows])
            groups.append(part._replace(rows=known))
    outputs = [name for name in some[0] if name.startswith("out_")]
    expected = {name[4:]: np.array([float(row[name]) for row in some]) for name in outputs}
    return Steps([*places], groups, expected)
