"""What measured rows leave to the public files of their models and recipes: layers and experts.

``arch_fill.csv`` has the layers of models by their names, ``expert_recipes.csv.gz`` the settings of
experts of Megatron-Bridge's recipes by release, model, chip, precision and plan.
Source: docs/models/layers_2026.md, section 7.
"""

import csv
import functools
import gzip
import pathlib
import re
from collections.abc import Mapping

from jaxroof.estimators.training.recipe import Module
from jaxroof.settings import choice_text
from tools.rows.common import Row, Settings
from tools.rows.software import software_of

FOLDER = pathlib.Path(__file__).parent
LAYERS, RECIPES = "arch_fill.csv", "expert_recipes.csv.gz"
FULL = 2.0  # level of recomputation
DIMENSIONS = (  # columns of a row that a file fills where they are blank
    *("layers", "hidden", "ffn", "heads", "kv_heads", "vocab", "moe_experts", "moe_topk"),
)
SHARES = {  # numbers of layers, and the share that each has in the file
    "full_layers": "full_share",
    "windowed_layers": "window_share",
    "mamba_layers": "mamba_share",
    "delta_layers": "delta_share",
    "kda_layers": "kda_share",
    "index_layers": "index_share",
    "dense_layers": "dense_share",
    "routed_layers": "routed_share",
}
SHAPES = {  # other numbers of a model, and their columns; windowed layers have the shape of all
    **{
        name: name
        for name in (
            *("head_size", "window", "chunked", "attention_gate"),
            *("mamba_heads", "mamba_head_size", "mamba_groups", "mamba_state"),
            *("delta_key_heads", "delta_value_heads"),
            *("delta_key_size", "delta_value_size", "kda_heads", "kda_head_size"),
            *("index_heads", "index_size", "index_topk"),
        )
    },
    "expert_feedforward": "expert_ffn",
    "shared_feedforward": "shared_ffn",
    "expert_latent": "moe_latent",
    "mtp_layers": "mtp",
    "mtp_blocks": "mtp_blocks",
}
RECURRENT = ("mamba", "delta", "kda")
NAMES = {  # what a model is called in a recipe: words of its name in a row
    "deepseek-v3": "deepseek[- ]v3",
    "qwen3-235b": "235b",
    "qwen3-30b": "qwen3[- ]30b",
    "gpt-oss-120b": "gpt-oss[- ]?120b",
    "kimi-k2": "kimi[- ]k2",
    "nemotron-3-nano": "nemotron 3 nano",
    "nemotron-3-super": "nemotron 3 super",
    "qwen3-next-80b": "qwen3[- ]next",
}
FORMATS = {"bf16": "bf16", "fp8": "fp8_cs", "mxfp8": "fp8_mx", "nvfp4": "nvfp4"}
DEGREES = {"ep": "expert", "pp": "pipeline", "tp": "tensor", "mbs": "microbatch"}
WEIGHTS = {"precision": 10, "ep": 3, "pp": 3, "tp": 2, "mbs": 1, "gpus": 1}  # of what agrees
EDITION = re.compile(r"(?<![\d.-])v?(\d\d\.\d\d(?:\.\d\d)?)(?!\d)")
FLEXIBLE = ("deepep", "hybridep")  # dispatchers


# ---- Layers -------------------------------------------------------------------------------------


@functools.cache
def _lines(name: str) -> list[dict[str, str]]:
    opened = gzip.open if name.endswith(".gz") else open
    with opened(FOLDER / name, "rt", encoding="utf-8", newline="") as file:
        return list(csv.DictReader(file))


def known_layers(row: Row) -> dict[str, str]:
    """Return the line of a row's model in the file of layers; empty if it has none."""
    name = row.cells.get("model", "").casefold()
    lines = _lines(LAYERS)
    return next((line for line in lines if re.search(line["pattern"], name)), {})


def filled(row: Row) -> tuple[Row, Settings]:
    """Return a row with its blank dimensions filled, and a note of what has filled it."""
    line = known_layers(row)
    blank = [name for name in DIMENSIONS if name not in row.cells and line.get(name)]
    if not line:
        return row, {}
    said = f"{line['models_2026']}: {' '.join(blank) or 'kinds of layers'}"
    return Row({**row.cells, **{name: line[name] for name in blank}}), {"#filled": said}


def layers_of(row: Row, layers: float) -> dict[str, float]:
    """Return the numbers of layers of every kind, and their shapes, of a model in the file.

    Shares are of all layers, so that a model that is cut keeps its mix.
    """
    line = known_layers(row)
    counts = {name: round(float(line[c]) * layers, 6) for name, c in SHARES.items() if line}
    return counts | {name: float(line[c]) for name, c in SHAPES.items() if line.get(c)}


def known_choices(row: Row, model: Mapping[str, float]) -> Settings:
    """Return the structural choices of a model in the file: it learns no positions."""
    line = known_layers(row)
    if not line:
        return {}
    recurrent = [kind for kind in RECURRENT if model[f"{kind}_layers"]]
    sparse = {"attention": "sparse"} if model["index_layers"] else {}
    gated = line["gated"] == "1"
    return {
        **sparse,
        "mlp": "gated" if gated else "plain",
        "embeddings": "separate",
        "model.positions": 0.0,
        "model.rotary": float(gated),  # what has Mamba layers does not rotate
        "recurrence": recurrent[0] if recurrent else "none",
        "biases": "experts" if line["expert_bias"] == "1" else "none",
    }


# ---- Experts ------------------------------------------------------------------------------------


def expert_settings(row: Row, kind: str, settings: Settings) -> Settings:
    """Return what the software of a row does with its experts, and what it computes again.

    A run of Megatron-Bridge has the recipe of its release that is most like it.
    """
    line = _recipe(row, kind, settings)
    found = _of_recipe(line, settings["precision"]) if line else _of_software(row)
    modules = line["recompute"].split("+") if line else _stated(row)
    if settings.get("plan.recompute") != FULL and any(modules):
        chosen = frozenset(Module(name) for name in modules)
        found |= {"plan.recompute": 1.0, "selective": choice_text(chosen)}
    cloud = row.cells.get("source", "").startswith("NVIDIA DGX Cloud")
    reached = 8.0 if kind == "B300" else 4.0 if kind == "GB200" and cloud else 0.0
    return found | ({"software.exchange_domain": reached} if reached else {})


def _of_software(row: Row) -> Settings:
    flexible = float(software_of(row) == "automodel")
    return {"software.flex": flexible, "software.dedup": flexible}


def _of_recipe(line: dict[str, str], precision: str) -> Settings:
    flexible, whole = float(line["dispatcher"] in FLEXIBLE), line["graph"] == "full"
    return {
        "#recipe": f"{line['release']} {line['recipe']}",
        "software.flex": flexible,
        "software.dedup": flexible,
        "software.exchange_overlap": float(line["exchange_overlap"]),
        "software.token_drop": float(line["token_drop"]),
        "software.graph": float(whole),
        "software.graph_part": float(line["graph"] == "part"),
        "software.attention8": float(line["attention_fp8"]) * (precision != "bf16"),
        **({"software.host": 0.0} if whole else {}),
    }


def _recipe(row: Row, kind: str, settings: Settings) -> dict[str, str] | None:
    """Return the line of the recipe of a row, if there is one: the first of the most alike."""
    edition = EDITION.search(row.cells.get("date_version", ""))
    if edition is None or not row.cells.get("source", "").startswith("NVIDIA Megatron-Bridge"):
        return None
    name = row.cells.get("model", "").casefold()
    model = next((one for one, words in NAMES.items() if re.search(words, name)), "")
    asked = {"release": edition[1], "model": model, "chip": kind.casefold()}
    lines = [line for line in _lines(RECIPES) if all(line[n] == v for n, v in asked.items())]
    stated = {column: settings[f"plan.{field}"] for column, field in DEGREES.items()}
    stated["gpus"] = float(row.cells["gpus"])

    def alike(line: dict[str, str]) -> float:
        same = {name for name, value in stated.items() if line[name] and float(line[name]) == value}
        same |= {"precision"} if line["precision"] == FORMATS[settings["precision"]] else set()
        return sum(WEIGHTS[name] for name in same)

    return max(lines, key=alike, default=None)


def _stated(row: Row) -> list[str]:
    """Return the modules that a row says are computed again."""
    level, _, modules = row.cells.get("recompute", "").partition(":")
    known = {module.value for module in Module}
    return [m for m in re.findall(r"\w+", modules) if m in known] if level == "selective" else []
