"""Golden rows of memory: their inputs as records, with the parameters of section 2 counted here."""

import collections
import csv
import dataclasses
import gzip
import json
import types
from typing import Any

from places import GOLDEN

from jaxroof.estimators.training import memory_recipe as choices
from jaxroof.estimators.training.memory_inputs import (
    Activations,
    Buffers,
    Counts,
    MemoryInputs,
    MemoryPlan,
    States,
)
from jaxroof.settings import choose

FOLDER = GOLDEN / "training_today"
MODEL = {  # defaults of the rows
    "gated": 1, "tied": 0, "norm": "rmsnorm", "norms_per_layer": 2, "bias": "none", "qk_norm": 0,
    "positions": 0, "experts": 0, "active_experts": 0, "expert_feedforward": 0,
    "shared_feedforward": 0, "first_dense_layers": 0, "latent": 0, "q_rank": 0, "kv_rank": 0,
    "nope_size": 0, "rope_size": 0, "value_size": 0, "mtp_layers": 0,
}  # fmt: skip
SIZES = ("layers", "hidden", "feedforward", "heads", "kv_heads", "head_size", "vocabulary")
Shape = collections.namedtuple(  # a pytree of the numbers of a model
    "Shape", (*SIZES, *(name for name, value in MODEL.items() if not isinstance(value, str)))
)
RECORDS = {"states": States, "activations": Activations, "buffers": Buffers}
NAMED = (
    "schedule", "recompute", "attention_kernel", "context_exchange", "cross_entropy",
    "expert_weighting",
)  # fmt: skip


def rows(name: str) -> list[dict[str, str]]:
    """Return the rows of a golden file."""
    with gzip.open(FOLDER / f"{name}.csv.gz", "rt", newline="") as file:
        return list(csv.DictReader(file))


def case(row: dict[str, str]) -> tuple[MemoryInputs, choices.MemoryRecipe]:
    """Return the inputs and the recipe of a row with JSON columns."""
    given = {key: json.loads(row[key]) for key in ("model", "plan", "recipe")}
    return inputs(given["model"], given["plan"], given["recipe"]), recipe(given["recipe"])


def inputs(model: dict[str, Any], plan: dict[str, Any], chosen: dict[str, Any]) -> MemoryInputs:
    """Return the records of a model, a plan and the numbers among the choices."""
    shape = types.SimpleNamespace(**{**MODEL, **model})

    def some(kind: Any) -> Any:
        names = set(kind.__dataclass_fields__) & set(chosen)
        return kind(**{name: float(chosen[name]) for name in names})

    sequence = float(plan["sequence"])
    of_plan = {**plan, **{k: v for k, v in chosen.items() if k in MemoryPlan.__dataclass_fields__}}
    numbers = {name: float(getattr(shape, name)) for name in Shape._fields}
    return MemoryInputs(
        model=Shape(**numbers),
        counts=counts(shape),
        sequence=sequence,
        plan=MemoryPlan(**{k: float(v) for k, v in of_plan.items() if k != "sequence"}),
        **{name: some(kind) for name, kind in RECORDS.items()},
    )


def recipe(chosen: dict[str, Any]) -> choices.MemoryRecipe:
    """Return the choices as members; flash = 0 says that scores are kept."""
    chosen = {"context_exchange": "all-to-all", **chosen}  # of the rows that say nothing
    named = {name: chosen[name] for name in NAMED if name in chosen}
    if chosen.get("flash") == 0:
        named["attention_kernel"] = "unfused"
    return dataclasses.replace(
        choose(choices.MemoryRecipe(), named),
        modules=frozenset(choices.Module(name) for name in chosen.get("modules", [])),
        layer_division=choices.LayerDivision.EVEN,
        layer_split=tuple(chosen.get("layer_split", [])),
    )


def counts(m: Any) -> Counts:
    """Return the parameters of a model by part, as section 2 of the sheet counts them."""
    h, gates = m.hidden, 2 + m.gated
    norm = h * {"rmsnorm": 1, "layernorm": 2}[m.norm]
    sharded, replicated = _latent(m) if m.latent else _attention(m)
    replicated += m.norms_per_layer * norm
    inner = (1 + m.gated) if m.bias in ("all", "mlp") else 0
    outer = h if m.bias in ("all", "mlp") else 0
    return Counts(
        dense_sharded=float(sharded + gates * h * m.feedforward + inner * m.feedforward),
        dense_replicated=float(replicated + outer),
        routing_sharded=float(sharded + gates * h * m.shared_feedforward),
        routing_replicated=float(replicated + h * m.experts),
        routed=float(m.experts * gates * h * m.expert_feedforward),
        norm=float(norm),
    )


def _attention(m: Any) -> tuple[int, int]:
    queries, keys = m.heads * m.head_size, m.kv_heads * m.head_size
    biased = m.bias == "all"
    sharded = 2 * m.hidden * (queries + keys) + (queries + 2 * keys) * biased
    return sharded, m.hidden * biased + 2 * m.head_size * m.qk_norm


def _latent(m: Any) -> tuple[int, int]:
    h, q, c, rotated = m.hidden, m.q_rank, m.kv_rank, m.nope_size + m.rope_size
    sharded = (q or h) * m.heads * rotated + c * m.heads * (m.nope_size + m.value_size)
    sharded += m.heads * m.value_size * h
    return sharded, (h * q + q if q else 0) + h * (c + m.rope_size) + c
