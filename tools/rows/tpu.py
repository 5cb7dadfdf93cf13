"""Measured steps of MaxText on TPUs as inputs of ``tpu_training``, with what a blank cell means.

Source: docs/models/networks.md, section 9, from a measured row to inputs.
"""

import csv
import functools
import io
import operator
import re
from collections.abc import Callable, Sequence

from jaxroof.catalog import lookup
from jaxroof.errors import InputError, refusal
from jaxroof.estimators.tpu_training.inputs import POLICIES, REMAT, Policy
from jaxroof.estimators.tpu_training.slices import AXES, SHAPES, shape_word
from tools.rows.common import Row, Settings, count, number, text
from tools.rows.steps import measured_step

SYSTEMS = {"v4": "tpu-v4", "v5e": "tpu-v5e", "v5p": "tpu-v5p", "v6e": "tpu-v6e", "7x": "tpu-v7"}
CUBES = {  # chips of a slice -> its shape, of generations with three axes
    64: "4x4x4",
    128: "4x4x8",
    192: "4x4x12",
    256: "4x8x8",
    512: "8x8x8",
    1024: "8x8x16",
    1536: "8x12x16",
    2048: "8x16x16",
    4096: "16x16x16",
    6144: "16x16x24",
}
FLAT = {8: "2x4", 16: "4x4", 32: "4x8", 64: "8x8", 128: "8x16", 256: "16x16"}
POD = 256  # chips of the largest flat slice
SIZED = {128.0: ("Llama", "Mistral", "Mixtral", "GPT-3", "DeepSeek", "Qwen3"), 64.0: ("gpt-oss",)}
UNGATED = ("GPT-3", "MaxText 22B", "MaxText 52B")
EXPERTS = {  # numbers that no column states
    "DeepSeek-V3": {
        "expert_feedforward": 2048.0,
        "shared_feedforward": 2048.0,
        "first_dense_layers": 3.0,
        "q_rank": 1536.0,
        "kv_rank": 512.0,
        "nope_size": 128.0,
        "value_size": 128.0,
    },
    "Llama 4 Scout": {"expert_feedforward": 8192.0, "shared_feedforward": 8192.0},
    "Llama 4 Maverick": {
        "expert_feedforward": 8192.0,
        "shared_feedforward": 8192.0,
        "dense_layers": 24.0,
        "feedforward": 16384.0,
    },
    "Gemma 4 26B": {"expert_feedforward": 704.0, "shared_feedforward": 2112.0},
}
FILLED = {  # shapes that a source leaves blank, of public configurations
    "Gemma 4 E4B": {
        "layers": "42",
        "hidden": "2560",
        "heads": "8",
        "kv_heads": "2",
        "ffn": "10240",
        "vocab": "262144",
    }
}
WINDOWS = {"Gemma": (1024.0, 5.0 / 6.0), "gpt-oss": (128.0, 0.5)}
SMALL_WINDOWS = {"Gemma 4 E2B": (512.0, 4.0 / 5.0), "Gemma 4 E4B": (512.0, 5.0 / 6.0)}
LONG_BLOCK = ("Llama 3.1", "Gemma", "Mistral", "Mixtral")  # of whose runs on v6e it is 2048
DATA = {"Gemma 4 E2B": 4.0, "Gemma 4 E4B": 4.0}
OFFLOADED = {  # policies of older names, and those that keep in the memory of the host
    "qkv_proj_offloaded": "save_qkv_proj",
    "minimal_flash": "minimal_with_context",
    "save_dot_except_logits": "minimal",
    **dict.fromkeys(
        ("save_dot_except_mlpwi", "save_dot_except_logits_ffn1"), "save_dot_except_mlp"
    ),
    "save_dot_with_context_except_mlp": "save_dot_with_context_except_mlp",
}
CUSTOM = {  # generation and beginning of a model -> what its recipe keeps where no note says it
    ("v7", "Llama 3.1 70B"): Policy(qkv=1.0, context=1.0),
    ("v7", "Llama 3.1 405B"): Policy(qkv=8.0 / 144.0),
    ("v7", "Gemma 4 31B"): Policy(out=1.0),
    ("v5p", "Llama 3.1 405B"): Policy(context=1.0),
    ("v5p", "DeepSeek"): Policy(out=1.0),
    ("v6e", "Llama 3.1 70B"): Policy(qkv=1.0),
    ("v6e", "Mixtral 8x7B"): Policy(qkv=1.0, out=1.0),
}
TENSORS = {"query_proj": "qkv", "out_proj": "out", "context": "context", "mlpwi": "up"}


Part = Callable[[Row], Settings]


def converted_here(rows: list[Row], chip: Callable[[Row], str], *parts: Part) -> str:
    """Return rows in the common schema as rows of inputs, every number written out: CSV."""
    lines = [_line(row, chip, parts) for row in rows]
    names = list(dict.fromkeys(name for line in lines for name in line))
    written = io.StringIO()
    table = csv.DictWriter(written, names, lineterminator="\n")
    table.writeheader()
    for line in lines:
        table.writerow({name: _cell(line.get(name, "")) for name in names})
    return written.getvalue()


def _cell(value: float | str) -> str:
    return value if isinstance(value, str) else repr(float(value)).removesuffix(".0")


def _line(row: Row, chip: Callable[[Row], str], parts: Sequence[Part]) -> Settings:
    cells = row.cells
    notes = {"#source": "source", "#model": "model", "#machine": "system", "#group": "split_group"}
    line: Settings = {"id": cells["row_id"]}
    line |= {name: cells.get(column, "") for name, column in notes.items()}
    line |= {"#chip": chip(row), "#refused": ""}
    try:
        return functools.reduce(operator.or_, (part(row) for part in parts), line)
    except InputError as error:
        return line | {"#refused": str(error)}


def generation(row: Row) -> str:
    """Return the generation of a row's TPUs."""
    stated = text(row, "system")
    for words, name in SYSTEMS.items():
        if re.search(rf"TPU ?{words}\b", stated):
            return name.removeprefix("tpu-")
    raise refusal("system", f"{stated}: no TPU; expected one of {', '.join(SYSTEMS)}")


def tpu_settings(row: Row) -> Settings:
    """Return the inputs of a measured step of MaxText."""
    model, name = _model(row), row.cells.get("model", "")
    plan = _plan(row)
    software = _software(row, model)
    return {
        "system": f"tpu-{generation(row)}",
        "gpus": count(row, "gpus"),
        "global_batch": count(row, "gbs"),
        **{f"model.{field}": value for field, value in model.items()},
        "mlp": "plain" if name.startswith(UNGATED) else "gated",
        "attention": "latent" if model["kv_rank"] else "heads",
        **{f"software.{field}": value for field, value in software.items()},
        **{f"plan.{field}": value for field, value in plan.items()},
    }


def tpu_step(row: Row) -> Settings:
    """Return the seconds of a step: stated, or of the FLOP/s that MaxText printed.

    F = 6 W + 12 L a d s a token, of weights W of layers and head: full attention, as it counted
    before 2025-07-27.
    """
    found = measured_step(row)
    if found:
        return found
    model, gated = _model(row), not row.cells.get("model", "").startswith(UNGATED)
    hidden, wide = model["hidden"], model["heads"] * model["head_size"]
    qkv = (model["heads"] + 2.0 * model["kv_heads"]) * model["head_size"]
    layer = hidden * (qkv + wide + (2.0 + gated) * model["feedforward"])
    weights = model["layers"] * layer + hidden * model["vocabulary"]
    flops = 6.0 * weights + 12.0 * model["layers"] * wide * model["sequence"]
    tokens = count(row, "gbs") * model["sequence"] / count(row, "gpus")
    rate = number(row, "measured_tflops_per_gpu") * 1e12
    return {"#measured_step_time_s": round(tokens * flops / rate, 4)}


def _of(table: dict, name: str, usual: object) -> object:
    return next((more for start, more in table.items() if name.startswith(start)), usual)


def _model(row: Row) -> Settings:
    name = row.cells.get("model", "")
    row = Row({**FILLED.get(name, {}), **row.cells})
    layers, hidden = count(row, "layers"), count(row, "hidden")
    heads, feedforward = count(row, "heads"), count(row, "ffn")
    size = next((s for s, starts in SIZED.items() if name.startswith(starts)), hidden / heads)
    size = 128.0 if re.fullmatch(r"MaxText \d+B", name) else size
    size = 256.0 if name.startswith(("Gemma", "MaxText 22B")) else size
    window, local = _of({**SMALL_WINDOWS, **WINDOWS}, name, (0.0, 0.0))
    routed = "moe_experts" in row.cells
    model: Settings = {
        "layers": layers,
        "hidden": hidden,
        "feedforward": feedforward,
        "heads": heads,
        "kv_heads": count(row, "kv_heads", heads),
        "head_size": size,
        "vocabulary": count(row, "vocab"),
        "sequence": count(row, "seq"),
        "experts": count(row, "moe_experts") if routed else 0.0,
        "active_experts": count(row, "moe_topk") if routed else 0.0,
        "expert_feedforward": feedforward if routed else 0.0,
        **dict.fromkeys(("shared_feedforward", "first_dense_layers", "q_rank", "kv_rank"), 0.0),
        **dict.fromkeys(("nope_size", "value_size"), 0.0),
        "window": window,
        "windowed_layers": round(local * layers),
    }
    model |= _of(EXPERTS, name, {}) if routed else {}
    model["dense_layers"] = model.get("dense_layers", model["first_dense_layers"])
    return model if routed else {**model, "dense_layers": layers}


def _software(row: Row, model: Settings) -> Settings:
    name, chip = row.cells.get("model", ""), generation(row)
    precision = row.cells.get("precision", "")
    block = 512.0
    if chip == "v6e":
        block = 2048.0 if name.startswith(LONG_BLOCK) else 1024.0
    if chip == "v7" or (chip == "v5p" and row.cells["row_id"].startswith("tpurec")):
        block = 2048.0
    drops = float(name.startswith("Mixtral"))
    keep = _kept(row)
    return {
        "int8": float(precision.startswith("INT8") or row.cells["row_id"] == "tpurec-21"),
        "fp8": float(precision.startswith("FP8")),
        **{f"keep_{field}": value for field, value in keep._asdict().items()},
        "attention_block": min(block, model["sequence"]),
        "capacity": 1.25 if drops else 1.0,
        "dropping": drops,
    }


def _kept(row: Row) -> Policy:
    """Return what is kept: of a policy by name, of the tensors of a note, or of the recipe."""
    written = row.cells.get("recompute", "custom").removeprefix("remat_policy=")
    name = OFFLOADED.get(written, written)
    if name in POLICIES:
        return POLICIES[name]
    tensors = dict(re.findall(r"(\w+)=(device|offload|remat)", row.cells.get("note", "")))
    if tensors:
        held = {TENSORS[one] for one, where in tensors.items() if one in TENSORS}
        held &= {TENSORS[o] for o, where in tensors.items() if o in TENSORS and where != "remat"}
        return Policy(**dict.fromkeys(held, 1.0))
    model, chip = row.cells.get("model", ""), generation(row)
    if chip == "v7" and model.startswith("Llama 3.1 405B") and row.cells["precision"] != "BF16":
        return Policy()
    mine = (keep for (of, start), keep in CUSTOM.items() if of == chip and model.startswith(start))
    return next(mine, Policy())


def _plan(row: Row) -> Settings:
    chip, name = generation(row), row.cells.get("model", "")
    chips = count(row, "gpus")
    found = re.search(r"x(\d+) slices", text(row, "system"))
    slices = float(found[1]) if found else 1.0
    flat = chip in ("v5e", "v6e")
    if flat and not found and chips > POD:
        slices = chips / POD
    own = chips / slices
    shape = (FLAT if flat else CUBES).get(int(own))
    if shape is None:
        raise refusal("system", f"slices of {own:g} chips: no shape known")
    tensor = count(row, "tp", 8.0 if row.cells["row_id"] == "tpurec-21" else 1.0)
    tensor = 4.0 if name.startswith("Llama 4 Maverick") else tensor
    context = count(row, "cp", 1.0)
    devices = own * float(lookup.tpu_of(f"tpu-{chip}").devices)
    data = count(row, "dp", 1.0) if row.cells.get("source", "").startswith("MLPerf") else 1.0
    data = _of(DATA, name, data)
    if name.startswith("gpt-oss"):
        data = devices / 64.0
    if name.startswith("Gemma 4 26B") and chips == 256.0:
        data = 2.0
    degrees = {"tensor": tensor, "context": context, "data": data}
    return {
        "slices": slices,
        "slice": float([*map(shape_word, SHAPES)].index(shape)),
        "fsdp": devices / (tensor * context * data),
        **degrees,
        **_axes(degrees, [int(side) for side in shape.split("x")]),
        "dcn_fsdp": float(name.startswith("Llama 3.1 405B") and chip == "v6e"),
        "remat": float(REMAT.index("custom")),
    }


def _axes(degrees: Settings, sides: list[int]) -> Settings:
    """Return the first free axis as long as each degree, a part of one where there is none."""
    free, found = [*range(len(sides))], {}
    for name, degree in degrees.items():
        mine = next((axis for axis in free if sides[axis] == degree and degree > 1.0), None)
        if mine is not None:
            free.remove(mine)
        place = "none" if mine is None else "xyz"[mine]
        found[f"{name}_axes"] = float(AXES.index(place))
    return found
