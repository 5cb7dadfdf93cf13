"""Golden rows of memory: their inputs as records, with the parameters of section 2 counted here."""

import csv
import dataclasses
import gzip
import json
import types
from typing import Any

import numpy as np
from places import GOLDEN

from jaxroof.catalog.architecture import Architecture
from jaxroof.catalog.lookup import device
from jaxroof.estimators.training import recipe as choices
from jaxroof.estimators.training.inputs import (
    RECOMPUTATION,
    Activations,
    Buffers,
    PlannedStep,
    StageInputs,
    StateSizes,
    TrainingPlan,
    planned,
)
from jaxroof.records import units
from jaxroof.settings import choose

FOLDER = GOLDEN / "training_today"
MODEL = {  # defaults of the rows
    "gated": 1, "tied": 0, "norm": "rmsnorm", "norms_per_layer": 2, "bias": "none", "qk_norm": 0,
    "positions": 0, "experts": 0, "active_experts": 0, "expert_feedforward": 0,
    "shared_feedforward": 0, "first_dense_layers": 0, "latent": 0, "q_rank": 0, "kv_rank": 0,
    "nope_size": 0, "rope_size": 0, "value_size": 0, "mtp_layers": 0,
}  # fmt: skip
RECORDS = {"states": StateSizes, "activations": Activations, "buffers": Buffers}
NAMED = (
    "schedule", "attention_kernel", "context_exchange", "cross_entropy", "expert_weighting",
)  # fmt: skip


def rows(name: str) -> list[dict[str, str]]:
    """Return the rows of a golden file."""
    with gzip.open(FOLDER / f"{name}.csv.gz", "rt", newline="") as file:
        return list(csv.DictReader(file))


def case(row: dict[str, str]) -> tuple[PlannedStep, choices.TrainingRecipe]:
    """Return the step and the recipe of a row with JSON columns."""
    return step(*(json.loads(row[key]) for key in ("model", "plan", "recipe")))


def step(
    model: dict[str, Any], plan: dict[str, Any], chosen: dict[str, Any]
) -> tuple[PlannedStep, choices.TrainingRecipe]:
    """Return the step of a model, a plan and the numbers among the choices, and the recipe."""
    architecture, own = of_model(model, float(plan["sequence"]))
    recipe = recipe_of(chosen, own)

    numbers = {name: value for name, value in chosen.items() if name != "recompute"}

    def some(kind: Any) -> dict[str, Any]:
        return {name: np.float64(numbers[name]) for name in {*units(kind)} & {*numbers}}

    of_plan = {name: np.float64(value) for name, value in plan.items() if name in PLAN}
    split = TrainingPlan(
        **{**of_plan, **some(TrainingPlan)},
        recompute=np.float64(RECOMPUTATION.index(chosen.get("recompute", "none"))),
    )
    batch: Any = float(plan.get("microbatches", 1)) * split.data * split.microbatch
    more = {name: np.float64({**plan, **chosen}.get(name, 0)) for name in OF_A_STEP}
    inputs = StageInputs(
        model=architecture,
        system=device("h100-nvs8"),
        global_batch=batch,
        plan=split,
        **more,
        **{name: kind(**some(kind)) for name, kind in RECORDS.items()},
    )
    return planned(inputs, recipe), recipe


PLAN = {*units(TrainingPlan)} - {"recompute"}
OF_A_STEP = ("microbatch_group", "early_forward")


def of_model(
    shape: dict[str, Any], sequence: float = 1024.0
) -> tuple[Architecture, choices.Recipe]:
    """Return a golden model as the catalogue would state it."""
    own = types.SimpleNamespace(**{**MODEL, **shape})
    numbers = {
        name: float(getattr(own, name)) for name in units(Architecture) if hasattr(own, name)
    }
    numbers |= {"head_norms": 2.0 * own.qk_norm, "sequence": sequence}
    recipe = choices.Recipe(
        attention=choices.Attention.LATENT if own.latent else choices.Attention.HEADS,
        mlp=choices.Mlp.GATED if own.gated else choices.Mlp.PLAIN,
        norm=choices.Norm(own.norm),
        biases=choices.Biases(own.bias),
        embeddings=choices.Embeddings.TIED if own.tied else choices.Embeddings.SEPARATE,
    )
    return Architecture(**numbers), recipe


def recipe_of(chosen: dict[str, Any], model: choices.Recipe) -> choices.TrainingRecipe:
    """Return the choices as members; flash = 0 says that scores are kept."""
    chosen = {"context_exchange": "all-to-all", **chosen}  # of the rows that say nothing
    named = {name: chosen[name] for name in NAMED if name in chosen}
    if chosen.get("flash") == 0:
        named["attention_kernel"] = "unfused"
    return dataclasses.replace(
        choose(choices.TrainingRecipe(**vars(model)), named),
        selective=frozenset(choices.Module(name) for name in chosen.get("modules", [])),
        layer_division=tuple(chosen.get("layer_split", [])) or choices.LayerDivision.EVEN,
    )
