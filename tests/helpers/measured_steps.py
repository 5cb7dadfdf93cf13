"""Golden steps, measured ones and those of models of 2026: their columns as inputs, and times."""

import csv
import functools
import gzip
from typing import Any, NamedTuple

import numpy as np
from places import GOLDEN

from jaxroof.catalog.architecture import Architecture
from jaxroof.catalog.chip import Chip, SharedConstants
from jaxroof.catalog.lookup import chip
from jaxroof.catalog.system import System
from jaxroof.estimators.training import recipe as choices
from jaxroof.estimators.training.inputs import (
    Framework,
    StateSizes,
    TrainingInputs,
    TrainingPlan,
)
from jaxroof.estimators.training.recipe import Module, TrainingRecipe
from jaxroof.records import units

FOLDER = GOLDEN / "training_today"
CHIPS = {  # of a row -> system of tests/golden/hardware/systems.csv, generation
    "a100-40": ("a100-40-sxm", "ampere"),
    "a100-80": ("a100-80-sxm", "ampere"),
    "h100": ("h100-80-sxm", "hopper"),
    "h200": ("h200-141-sxm", "hopper"),
    "b200": ("b200-180-sxm", "blackwell"),
    "gb200": ("gb200-nvl72", "blackwell"),
    "gb300": ("gb300-nvl72", "blackwell-ultra"),
}
LAYERS = "layers of 2026"
KINDS = (*CHIPS, LAYERS)  # measured steps chip by chip, and steps of models of 2026
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
SHARES = {  # field -> column, of the layers that have a part
    **{f"{n}_layers": f"{n}_share" for n in ("full", "index", "mamba", "delta", "kda")},
    **{f"{n}_layers": f"{n}_share" for n in ("dense", "routed")}, "windowed_layers": "window_share",
}  # fmt: skip
WINDOW = ("window_heads", "window_kv_heads", "window_head_size")
SOFTWARE = {
    **{n: n for n in ("flash", "old", "dropout", "bias", "loss_bytes", "scatter", "fused", "host")},
    **{n: n for n in ("early_stop", "slow_node", "year", "fp8", "fp4")},
    "tensor_overlap": "tp_overlap", "tensor_async": "tp_async",
    "pipeline_overlap": "pp_overlap", "data_overlap": "dp_overlap", "reduce_bytes": "grad_bytes",
    "step_share": "step", "micro_scaled": "mxfp8",
}  # fmt: skip
OLD = SharedConstants(  # section 8 of the sheet of layers, column old
    first_expert=0.0,
    grouped=0.877,
    expert_rows=348.0,
    scatter_rate=1.03,
    scatter_flex=1.03,
    permute=23.4,
    permute_flex=23.4,
    permute_fused=0.205,
    host_moe=1.19e-3,
    sync=5.66e-4,
    sync_flex=1.0,
    graph_part=0.0,
    moe_years=2.22,
    expert_tile=0.0,
)
CAPTURED = 2026.4  # year from which the old sheet has graphs
LOSSES = {
    12.0: choices.CrossEntropy.FUSED,
    32.0: choices.CrossEntropy.NATIVE,
    52.0: choices.CrossEntropy.VOCABULARY_PARALLEL,
}
MODULES = {
    "recompute_selective": Module.CORE_ATTENTION,
    "recompute_norm": Module.LAYERNORM,
    "recompute_up": Module.LATENT_PROJECTION,
    "recompute_act": Module.EXPERT_ACTIVATION,
    "recompute_mlp": Module.MLP,
    "recompute_moe": Module.EXPERTS,
    "recompute_shared": Module.SHARED_EXPERTS,
}
Row = dict[str, Any]


class Asked(NamedTuple):
    """Steps with the same choices, every input a column."""

    rows: np.ndarray  # their places among all steps
    inputs: TrainingInputs
    recipe: TrainingRecipe


class Steps(NamedTuple):
    """Steps, and the times that the sheet gives, as columns."""

    names: list[str]
    groups: list[Asked]
    expected: dict[str, np.ndarray]


@functools.cache
def rows(name: str = "prototype_rows") -> tuple[dict[str, str], ...]:
    """Return the rows of a golden file as written."""
    with gzip.open(FOLDER / f"{name}.csv.gz", "rt") as file:
        return tuple(csv.DictReader(file))


@functools.cache
def steps(kind: str) -> Steps:
    """Return the measured steps of one kind of chip, or the steps of models of 2026."""
    if kind == LAYERS:
        found = [_numbers(row) for row in rows("layers_time")]
    else:
        found = [_of_before(row) for row in map(_numbers, rows()) if row["chip"] == kind]
    constants = SharedConstants() if kind == LAYERS else OLD
    together: dict[TrainingRecipe, list[int]] = {}
    for place, row in enumerate(found):
        together.setdefault(_recipe(row), []).append(place)
    groups = [
        Asked(np.array(places), _inputs([found[place] for place in places], constants), recipe)
        for recipe, places in together.items()
    ]
    outputs = [name for name in found[0] if name.startswith("out_")]
    expected = {name[4:]: np.array([row[name] for row in found]) for name in outputs}
    return Steps([row["row_id"] for row in found], groups, expected)


@functools.cache
def each_kind() -> tuple[Asked, ...]:
    """Return steps of models of 2026 with the same choices, the most of every kind of model."""
    most: dict[Any, Asked] = {}
    for asked in sorted(steps(LAYERS).groups, key=lambda one: len(one.rows)):
        of = asked.recipe
        most[of.attention, of.recurrence, of.biases, bool(of.selective)] = asked
    return tuple(most.values())


def _numbers(row: dict[str, str]) -> Row:
    words = ("row_id", "file", "chip", "name")
    return {name: cell if name in words else float(cell) for name, cell in row.items()}


def _of_before(row: Row) -> Row:
    """Return a row of the old sheet with the columns that the other has and it implies."""
    latent = float(row["q_rank"] > 0.0)
    return {
        **row,
        "latent": latent,
        "nope_size": 128.0 * latent,
        "rope_size": 64.0 * latent,
        "value_size": 128.0 * latent,
        "graph": float(row["year"] > CAPTURED),
        "flex": 0.0,
    }


def _recipe(row: Row) -> TrainingRecipe:
    """Return the choices of a row; its modules where some layers' parts are computed again."""
    mixers = (kind for kind in choices.Recurrence if row.get(f"{kind.value}_share", 0.0) > 0.0)
    sparse, latent = row.get("index_share", 0.0) > 0.0, row["latent"] > 0.0
    several = choices.Attention.SPARSE if sparse else choices.Attention.LATENT
    gated = row["gated"] > 0.0
    again = {module for name, module in MODULES.items() if row.get(name, 0.0) > 0.0}
    return TrainingRecipe(
        attention=several if latent else choices.Attention.HEADS,
        recurrence=next(mixers, choices.Recurrence.NONE),
        mlp=choices.Mlp.GATED if gated else choices.Mlp.PLAIN,
        biases=choices.Biases.EXPERTS if row.get("expert_bias") else choices.Biases.NONE,
        embeddings=choices.Embeddings.SEPARATE if gated else choices.Embeddings.TIED,
        selective=frozenset() if row["recompute_full"] > 0.0 else frozenset(again),
        attention_kernel=choices.AttentionKernel.CUDNN
        if row["flash"] > 0.0
        else choices.AttentionKernel.UNFUSED,
        cross_entropy=LOSSES[row["loss_bytes"]],
    )


def _inputs(some: list[Row], constants: SharedConstants) -> TrainingInputs:
    """Return rows with the same choices as columns of inputs."""

    def of(name: str) -> np.ndarray:
        return np.array([row[name] for row in some])

    again = np.array([any(row.get(name, 0.0) > 0.0 for name in MODULES) for row in some])
    whole = of("recompute_full")
    plan = {name: of(name) for name in PLAN if name != "microbatches"}
    software = {name: of(name) for name in units(Framework) if name in some[0]}
    software |= {name: of(SOFTWARE[name]) for name in units(Framework) if name in SOFTWARE}
    return TrainingInputs(
        model=architecture(some),
        system=_machines(some),
        global_batch=of("global_batch"),
        states=StateSizes(reduce_bytes=of("grad_bytes")),
        plan=TrainingPlan(
            **plan,
            expert=of("expert_parallel"),
            sequence_parallel=of("sp"),
            zero_stage=of("zero"),
            recompute=np.where(whole > 0.0, 2.0, np.where(again, 1.0, 0.0)),
        ),
        software=Framework(**{**software, "repeated": np.where(whole > 0.0, whole, 1.0)}),
        shared=constants,
    )


def architecture(some: list[Row]) -> Architecture:
    """Return the models of rows; windows have a shape of their own where a row's is another."""

    def of(name: str) -> np.ndarray:
        return np.array([row[name] for row in some])

    alike = units(Architecture).keys() - MODEL.values()  # a column may be another field's name
    fields = {name: of(name) for name in alike if name in some[0]}
    fields |= {name: of(column) for name, column in MODEL.items() if column in some[0]}
    fields["rotary"] = fields.pop("gated")
    if "full_share" in some[0]:
        layers = of("layers")
        fields |= {name: of(column) * layers for name, column in SHARES.items()}
        fields["expert_latent"] = of("moe_latent")
        windows = fields["windowed_layers"] > 0.0
        full = {name: of(name.removeprefix("window_")) for name in WINDOW}
        shapes = {name: np.where(windows, of(name), full[name]) for name in WINDOW}
        own = any(np.any(shapes[name] != full[name]) for name in WINDOW)
        fields |= shapes if own else dict.fromkeys(WINDOW)
    return Architecture(**fields)


@functools.cache
def _hardware() -> dict[str, dict[str, str]]:
    with open(GOLDEN / "hardware" / "systems.csv", encoding="utf-8") as file:
        return {row["name"]: row for row in csv.DictReader(file)}


def _machines(some: list[Row]) -> System:
    """Return the machines of rows: rates of the golden table, constants of their generation."""
    parts = [_hardware()[CHIPS[row["chip"]][0]] for row in some]
    kinds = [chip(CHIPS[row["chip"]][1]) for row in some]

    def of(column: str) -> np.ndarray:
        return np.array([float(part[column]) for part in parts])

    constants = {name: np.array([float(getattr(c, name)) for c in kinds]) for name in units(Chip)}
    return System(
        matrix_flops=of("bf16_flops"),
        hbm_bandwidth=of("hbm_bandwidth"),
        hbm_capacity=of("hbm_capacity_bytes"),
        fast_domain=of("fast_domain_size"),
        fast_bandwidth=of("fast_bw_per_dir"),
        slow_bandwidth=np.array([row["slow_rate"] for row in some]),
        chip=Chip(
            **{**constants, "fp8_flops": of("fp8_flops"), "fp4_flops": of("fp4_flops")},
        ),
    )
