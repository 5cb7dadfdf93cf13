"""The rows of measured steps: model, plan and software as numbers, and the times of the sheet."""

import csv
import functools
import gzip
from typing import NamedTuple

import numpy as np
from places import GOLDEN

from jaxroof.catalog import lookup
from jaxroof.catalog.architecture import Architecture
from jaxroof.catalog.system import System
from jaxroof.estimators.training.inputs import Framework, StateSizes, TrainingInputs, TrainingPlan
from jaxroof.estimators.training.rates import LOSS_BYTES
from jaxroof.estimators.training.recipe import (
    Attention,
    AttentionKernel,
    CrossEntropy,
    Embeddings,
    Mlp,
    Selective,
    TrainingRecipe,
)
from jaxroof.records import units

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


class Group(NamedTuple):
    """Measured steps with the same choices: inputs whose numbers are columns."""

    places: np.ndarray  # of its rows among those of the kind of chip
    inputs: TrainingInputs
    recipe: TrainingRecipe


class Steps(NamedTuple):
    """Measured steps of one kind of chip, and the times that the sheet gives, as columns."""

    names: list[str]
    groups: list[Group]
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
    """Return the measured steps of one kind of chip as inputs of ``training``."""
    some = [row for row in rows() if row["chip"] == kind]
    alike: dict[TrainingRecipe, list[int]] = {}
    for place, row in enumerate(some):
        alike.setdefault(recipe_of(row), []).append(place)
    return Steps(
        names=[row["row_id"] for row in some],
        groups=[
            Group(np.array(places), inputs_of([some[place] for place in places], kind), recipe)
            for recipe, places in alike.items()
        ],
        expected={n[4:]: column(some, n) for n in some[0] if n.startswith("out_")},
    )


def column(some: list[dict[str, str]], name: str) -> np.ndarray:
    """Return a column of rows as numbers."""
    return np.array([float(row[name]) for row in some])


def recipe_of(row: dict[str, str]) -> TrainingRecipe:
    """Return the choices of a row; a model without a gate is of GPT's kind, its head tied."""
    gated = float(row["gated"]) > 0.0
    return TrainingRecipe(
        attention=Attention.LATENT if float(row["kv_rank"]) > 0.0 else Attention.HEADS,
        mlp=Mlp.GATED if gated else Mlp.PLAIN,
        embeddings=Embeddings.SEPARATE if gated else Embeddings.TIED,
        attention_kernel=KERNELS[float(row["flash"])],
        cross_entropy=LOSSES[float(row["loss_bytes"])],
        selective=Selective.CORE_ATTENTION,
    )


def inputs_of(some: list[dict[str, str]], kind: str) -> TrainingInputs:
    """Return rows on one kind of chip as inputs; positions are learned where there is no gate."""
    name, generation = CHIPS[kind]
    sheet = {key: float(value) for key, value in datasheet(name).items() if key in NUMBERS}
    of = functools.partial(column, some)
    full, plan = of("recompute_full"), {name: of(name) for name in PLAN if name != "microbatches"}
    return TrainingInputs(
        model=Architecture(
            **{field: of(name) for field, name in MODEL.items() if field != "gated"},
            **LATENT,
            sequence=of("sequence"),
            positions=(1.0 - of("gated")) * of("sequence"),
        ),
        system=System(
            matrix_flops=sheet["bf16_flops"],
            hbm_bandwidth=sheet["hbm_bandwidth"],
            fast_domain=sheet["fast_domain_size"],
            fast_bandwidth=sheet["fast_bw_per_dir"],
            slow_bandwidth=of("slow_rate"),
            chip=lookup.chip(generation, **{f"{n}_flops": sheet[f"{n}_flops"] for n in FEW}),
        ),
        global_batch=of("microbatches") * plan["data"] * plan["microbatch"],
        plan=TrainingPlan(
            **plan,
            expert=of("expert_parallel"),
            sequence_parallel=of("sp"),
            zero_stage=of("zero"),
            recompute=np.where(full > 0.0, 2.0, of("recompute_selective")),
        ),
        states=StateSizes(reduce_bytes=of("grad_bytes")),
        software=Framework(
            **{name: of(SOFTWARE[name]) for name in units(Framework) if name in SOFTWARE},
            repeated=np.where(full > 0.0, full, 1.0),
        ),
    )


KERNELS = {0.0: AttentionKernel.UNFUSED, 1.0: AttentionKernel.CUDNN}
LOSSES = {bytes_: kernel for kernel, bytes_ in LOSS_BYTES.items() if kernel != CrossEntropy.EAGER}
FEW = ("fp8", "fp4")
NUMBERS = {
    *("bf16_flops", "fp8_flops", "fp4_flops", "hbm_bandwidth"),
    *("fast_domain_size", "fast_bw_per_dir"),
}
