"""The rows of measured steps: model, plan and software as numbers, and the times of the sheet."""

import csv
import functools
import gzip
from types import SimpleNamespace
from typing import Any, NamedTuple

import numpy as np
from places import GOLDEN

from jaxroof.catalog import lookup
from jaxroof.catalog.chip import Chip
from jaxroof.catalog.system import System
from jaxroof.estimators.training.software import Software

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
    **{n: n for n in ("early_stop", "recompute_full", "recompute_selective", "slow_node", "year")},
    **{n: n for n in ("dedup", "fp8", "fp4")},
    "sequence_parallel": "sp",
    "tensor_overlap": "tp_overlap",
    "tensor_async": "tp_async",
    "pipeline_overlap": "pp_overlap",
    "data_overlap": "dp_overlap",
    "zero_stage": "zero",
    "gradient_bytes": "grad_bytes",
    "step_share": "step",
    "micro_scaled": "mxfp8",
}
LATENT = {"nope_size": 128.0, "rope_size": 64.0, "value_size": 128.0}  # the sheet's, of all rows
CAPTURED = 2026.4  # year from which expert layers of measured software are captured in a graph


class Steps(NamedTuple):
    """Measured steps of one kind of chip, as columns, and the times that the sheet gives."""

    names: list[str]
    model: Any
    sequence: np.ndarray
    plan: Any
    system: System
    chip: Chip
    software: Software
    expected: dict[str, np.ndarray]


@functools.cache
def rows() -> tuple[dict[str, str], ...]:
    """Return the rows as written."""
    with gzip.open(GOLDEN / "training_today" / "prototype_rows.csv.gz", "rt") as file:
        return tuple(csv.DictReader(file))


def datasheet(name: str) -> dict[str, str]:
    """Return a system of the datasheets."""
    with (GOLDEN / "hardware" / "systems.csv").open(encoding="utf-8") as file:
        return next(row for row in csv.DictReader(file) if row["name"] == name)


@functools.cache
def steps(kind: str) -> Steps:
    """Return the measured steps of one kind of chip.

    The sheet takes every model without a gate for one of GPT's kind: a tied head, no rotations.
    """
    some = [row for row in rows() if row["chip"] == kind]

    def column(name: str) -> np.ndarray:
        return np.array([float(row[name]) for row in some])

    name, generation = CHIPS[kind]
    sheet = {key: float(value) for key, value in datasheet(name).items() if key in NUMBERS}
    peaks = {f"{n}_flops": sheet[f"{n}_flops"] for n in ("fp8", "fp4") if sheet[f"{n}_flops"]}
    software = {field: column(name) for field, name in SOFTWARE.items()}
    return Steps(
        names=[row["row_id"] for row in some],
        model=SimpleNamespace(
            **{field: column(name) for field, name in MODEL.items()},
            **LATENT,
            tied=1.0 - column("gated"),
            positions=(1.0 - column("gated")) * column("sequence"),
            window=0.0,
            windowed_layers=0.0,
        ),
        sequence=column("sequence"),
        plan=SimpleNamespace(
            **{n: column(n) for n in PLAN}, expert=column("expert_parallel"), expert_tensor=1.0
        ),
        system=System(
            matrix_flops=sheet["bf16_flops"],
            hbm_bandwidth=sheet["hbm_bandwidth"],
            fast_domain=sheet["fast_domain_size"],
            fast_bandwidth=sheet["fast_bw_per_dir"],
            slow_bandwidth=column("slow_rate"),
        ),
        chip=lookup.chip(generation, **peaks),
        software=Software(**software, graph=np.where(software["year"] > CAPTURED, 1.0, 0.0)),
        expected={n[4:]: column(n) for n in some[0] if n.startswith("out_")},
    )


NUMBERS = {
    *("bf16_flops", "fp8_flops", "fp4_flops", "hbm_bandwidth"),
    *("fast_domain_size", "fast_bw_per_dir"),
}
