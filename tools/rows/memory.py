"""Measured memory as inputs of ``training`` by path, with what memory alone depends on as notes.

Source: docs/models/parameters_flops_memory.md, sections 4, 9 and 10.
"""

import re
from collections.abc import Callable

from jaxroof.errors import refusal, unknown
from tools.rows.common import (
    Options,
    Row,
    Settings,
    count,
    number,
    option_count,
    option_share,
    text,
)
from tools.rows.common import options as stated_options
from tools.rows.megatron import megatron_settings
from tools.rows.models import GPT2, MPT, named_model, plain_model
from tools.rows.plans import MIB, automatic_kernel, chip, degrees, machine, sequence_parallel

NUMBERS = {  # of the column memory_kind: which number it is
    "torch allocated peak": "allocated",
    "torch reserved peak": "reserved",
    "torch active peak": "active",
    "nvidia-smi": "device",
}
USUAL = {  # source: the number that it prints, where no memory_kind says so
    "SimuMax": "allocated",
    "torchtitan": "reserved",
    "BigScience 176B": "device",
}


def memory_settings(row: Row) -> Settings:
    """Return the inputs of a row whose memory was measured, the kind of row and its stage."""
    read = next(read for holds, read in READERS if holds(row))
    found = {"#stage": row.cells.get("memory_stage", "max"), **read(row)}
    return {**found, **machine(row)}


def measured_memory(row: Row) -> Settings:
    """Return what was measured [B] by number, the one that the row is about first."""
    if "measured_peak_memory_bytes" not in row.cells:
        return {}
    kind, source = row.cells.get("memory_kind", ""), row.cells.get("source", "")
    usual = [name for start, name in USUAL.items() if not kind and source.startswith(start)]
    if kind not in NUMBERS and not usual:
        said = f"{kind}: no such number" if kind else "blank; the measured number has no name"
        raise refusal("memory_kind", f"{said}; expected {', '.join(NUMBERS)}")
    found = {usual[0] if usual else NUMBERS[kind]: number(row, "measured_peak_memory_bytes")}
    reserved = re.search(r"peak reserved (\d+(?:\.\d+)?) GiB", row.cells.get("note", ""))
    if "measured_reserved_memory_bytes" in row.cells:
        found["reserved"] = number(row, "measured_reserved_memory_bytes")
    elif reserved:
        found["reserved"] = float(reserved[1]) * 2.0**30
    return {f"#measured_{name}_bytes": value for name, value in found.items()}


# ---- Megatron-LM of today, by the common columns alone ------------------------------------------

STAGES = {"none": 0.0, "ZeRO-0": 0.0, "DDP (FSDP=0)": 0.0, "ZeRO-1": 1.0}


def common_settings(row: Row) -> Settings:
    """Return the inputs of a row without options; kernels are by rule."""
    precision = text(row, "precision").upper()
    if precision != "BF16":
        raise refusal("precision", f"{precision}: copies of weights not modelled for such rows")
    model, named = named_model(row)
    note = row.cells.get("note", "")
    routed = model.experts > 0.0
    plan = {
        **degrees(row),
        "plan.interleave": count(row, "vp", 1.0),
        "plan.expert": count(row, "ep", None if routed else 1.0),
        "plan.sequence_parallel": sequence_parallel(row),
    }
    simumax = text(row, "source").startswith("SimuMax")
    if model.mtp_layers > 0.0 or "MTP" in note:
        raise refusal("note", "multi-token prediction: its modules are not stated by columns")
    capacity = re.search(r"capacity factor (\d+(?:\.\d+)?)", note)
    kind = "MoE" if routed else "dense"
    if routed and capacity:
        kind = "MoE, capacity"
    return {
        **named,
        **plan,
        "plan.zero_stage": _zero_stage(row),
        **_recomputed(row),
        "states.extra_token": float(simumax),  # its scripts have the null tokenizer, which adds one
        "activations.capacity_factor": float(capacity[1]) if capacity else 0.0,
        "buffers.workspace": 50.0 * MIB,  # fitted; 48.25 MiB by section 10.2
        "attention_kernel": "cudnn" if simumax else automatic_kernel(chip(row), True),
        "context_exchange": "all-to-all",
        "#kind": kind if simumax else f"{kind}, kernels by rule",
    }


def _zero_stage(row: Row) -> float:
    given = text(row, "zero_fsdp")
    for name, stage in STAGES.items():
        if given == name or given.startswith(f"{name} ("):
            return stage
    raise refusal("zero_fsdp", f"{given}: not modelled; expected one of {', '.join(STAGES)}")


def _recomputed(row: Row) -> Settings:
    given = text(row, "recompute")
    if given in ("none", "full"):
        return {"plan.recompute": 2.0 * (given == "full")}
    policy, _, named = given.partition(":")
    if policy != "selective":
        raise refusal("recompute", f"{given}: not modelled; expected none, full or selective")
    names = [name.strip() for name in named.split("+")] if named else ["core_attn"]
    return {"plan.recompute": 1.0, "#modules": ",".join(names)}


# ---- FSDP2 as torchtitan runs it, FSDP of llm-foundry -------------------------------------------

FSDP2 = ("recompute", "loss", "ends", "compile", "head_size", "qk_norm")
RECOMPUTE = {"none": 0.0, "op": 1.0, "full": 2.0}  # as plan.recompute has it
POLICIES = {  # of the column recompute, where no settings say it
    **RECOMPUTE,
    **dict.fromkeys(("selective", "selective op", "selective (per-op SAC)"), 1.0),
}
CHOICES = {"loss": ("eager", "compiled", "chunked"), "ends": ("root", "head")}
HEAD_APART = "2025-07"  # from this month on torchtitan groups the head apart


def fsdp2_settings(row: Row) -> Settings:
    """Return the inputs of a row of torchtitan."""
    plan = degrees(row)
    if plan["plan.pipeline"] > 1.0:
        raise refusal("pp", "FSDP2 with a pipeline: not modelled")
    if count(row, "moe_experts", 0.0) > 0.0:
        raise refusal("moe_experts", "experts under FSDP2: not modelled")
    model, named = named_model(row)
    given = stated_options(row)
    for name in given:
        if name not in FSDP2:
            raise unknown("settings", name, "option of an FSDP2 row", FSDP2)
    if option_count(given, "head_size", float(model.head_size)) != model.head_size:
        raise refusal("head_size", f"the model of the catalogue has {model.head_size:.0f}")
    norms = min(float(model.head_norms), 1.0)
    if option_count(given, "qk_norm", norms) != norms:
        raise refusal("qk_norm", "the model of the catalogue has another choice")
    choices = _stated(given) if given else _by_rule(row)
    kind = "FSDP2" if given else "FSDP2, loss by rule"
    return {**named, **plan, **choices, "#software": "fsdp2", "#kind": kind}


def _stated(given: Options) -> Settings:
    """Return the choices that the settings of a row state."""
    if "compile" not in given:
        raise refusal("compile", "not given; expected no, blocks or yes")
    for name, members in {"recompute": RECOMPUTE, **CHOICES}.items():
        if name not in given:
            raise refusal(name, f"not given; expected one of {', '.join(members)}")
        if given[name] not in members:
            raise unknown(name, given[name], f"{name} of FSDP2", members)
    compiled = "no" if given["compile"] == "no" else "yes"
    return _fsdp2(RECOMPUTE[given["recompute"]], given["loss"], given["ends"], compiled)


def _by_rule(row: Row) -> Settings:
    """Return the choices of a row without settings: an eager loss, ends by date.

    Compilation is what the note says; products in FP8 count as those in bf16 do.
    """
    policy, since = text(row, "recompute"), text(row, "date_version")
    if policy not in POLICIES:
        raise refusal("recompute", f"{policy}: not modelled under FSDP2")
    if not re.match(r"\d{4}-\d\d", since):
        raise refusal("date_version", "no date, which says how torchtitan groups the head")
    ends = "head" if since[:7] >= HEAD_APART else "root"
    compiled = "yes" if "compile" in row.cells.get("note", "") else "no"
    return _fsdp2(POLICIES[policy], "eager", ends, compiled)


def _fsdp2(recompute: float, loss: str, ends: str, compiled: str) -> Settings:
    notes = {"#loss": loss, "#ends": ends, "#compiled": compiled}
    return {"plan.recompute": recompute, **notes}


SHARDED = {"FULL_SHARD": False, "SHARD_GRAD_OP": True}  # whether layers stay gathered


def foundry_settings(row: Row) -> Settings:
    """Return the inputs of a run of llm-foundry: fp32 shards, a fused loss, cuDNN's attention."""
    if not text(row, "model").startswith("MPT"):
        raise refusal("model", "expected an MPT: the shape of others under FSDP is not stated")
    if "CPU offload True" in row.cells.get("note", ""):
        raise refusal("note", "states in host memory: not modelled")
    shared = text(row, "zero_fsdp").removeprefix("FSDP ")
    if shared not in SHARDED:
        raise unknown("zero_fsdp", shared, "sharding of FSDP", SHARDED)
    policy = text(row, "recompute")
    if policy not in ("none", "full"):
        raise unknown("recompute", policy, "policy of llm-foundry", ("none", "full"))
    return {
        **plain_model(row, MPT, positions=count(row, "seq")),
        **degrees(row),
        "plan.sequence_parallel": 0.0,
        "plan.zero_stage": 3.0,
        "plan.recompute": 2.0 * (policy == "full"),
        "states.weight_bytes": 4.0,
        "states.gradient_bytes": 4.0,
        "states.master_bytes": 0.0,
        "states.prefetch": count(row, "layers") if SHARDED[shared] else 1.0,
        "buffers.gradient_placeholders": 0.0,
        "#kind": "FSDP of llm-foundry",
    }


# ---- Megatron-LM and DeepSpeed of 2021-22: GPT in half precision with full recomputation --------

KNOWN = (  # options of the logs
    *("engine", "zero_stage", "fp16", "local-ddp-no-contiguous-buffers", "attention_dropout"),
    *("hidden_dropout", "partition_activations", "iteration", "optimizer_stepped"),
)
ENGINES = {  # who runs, ZeRO stage, precision
    ("deepspeed", "0", "FP16"): "deepspeed",
    ("deepspeed", "1", "FP16"): "deepspeed, ZeRO 1, FP16",
    ("deepspeed", "1", "BF16"): "deepspeed, ZeRO 1, BF16 optimizer",
    ("megatron", "0", "FP16"): "megatron",
}
EMBEDDINGS_ARE_SLOTS = "pp-partition type:transformer|embedding"


def log_settings(row: Row) -> Settings:
    """Return the inputs of a row with a log's options."""
    given = stated_options(row)
    for name in given:
        if name not in KNOWN:
            raise refusal(name, "an option whose effect on memory is not known")
    if "local-ddp-no-contiguous-buffers" not in given and given.get("engine") == "megatron":
        raise refusal("settings", "contiguous gradient buffers: not modelled")
    for name in ("attention_dropout", "hidden_dropout"):
        if option_share(given, name, 0.0) == 0.0:
            raise refusal(name, "off; the formulas of these codes have both dropouts on")
    if count(row, "layers") % count(row, "pp"):
        raise refusal("pp", "does not divide the layers, and their split is not stated")
    engine = _engine(given, text(row, "precision"))
    kind = "DeepSpeed" if engine == "deepspeed" else "Megatron"
    if given.get("optimizer_stepped") == "0":
        if engine != "megatron":
            raise refusal("optimizer_stepped", "no step of the optimizer: not modelled")
        engine = "megatron, before the first step"
    return {**_of_2021(row), "#software": engine, "#kind": kind}


def _engine(given: Options, precision: str) -> str:
    asked = given.get("engine", ""), given.get("zero_stage", ""), precision
    if asked not in ENGINES:
        raise refusal("zero_stage", f"{asked[0] or 'no engine'} with ZeRO {asked[1]}: not modelled")
    return ENGINES[asked]


def chronicle_settings(row: Row) -> Settings:
    """Return the inputs of a row of the BigScience chronicle.

    The vocabulary is stated, the MLP is four times as wide; FP16 where no precision is printed.
    """
    note, precision = row.cells.get("note", ""), row.cells.get("precision", "FP16")
    stage = text(row, "zero_fsdp").removeprefix("ZeRO-")
    engine = _engine({"engine": "deepspeed", "zero_stage": stage}, precision)
    wide = {"ffn": f"{4.0 * count(row, 'hidden')}", "kv_heads": text(row, "heads")}
    layers, pipeline = count(row, "layers"), count(row, "pp")
    slots = layers + 2.0 * (EMBEDDINGS_ARE_SLOTS in note)
    if slots % pipeline:
        raise refusal("pp", "does not divide the layers, and their split is not stated")
    each = int(slots // pipeline)
    split = [each - 1, *[each] * int(pipeline - 2.0), each - 1] if slots > layers else []
    if split and pipeline < 2.0:
        raise refusal("pp", "one stage has no split of layers")
    return {
        **_of_2021(Row({**wide, **row.cells})),
        "#software": engine,
        "#layer_split": ",".join(map(str, split)),
        "#kind": "DeepSpeed, BF16" if precision == "BF16" else "DeepSpeed, FP16 by rule",
    }


def _of_2021(row: Row) -> Settings:
    if text(row, "recompute") != "full":
        raise refusal("recompute", "the formulas of these codes have full recomputation")
    if row.cells.get("seqpar", "no") != "no" or count(row, "vp", 1.0) > 1.0:
        raise refusal("seqpar", "sequence parallelism and chunks: not in these codes")
    if count(row, "cp", 1.0) > 1.0 or count(row, "moe_experts", 0.0) > 0.0:
        raise refusal("cp", "context parallelism and experts: not in these codes")
    return {
        **plain_model(row, GPT2, positions=count(row, "seq")),
        **degrees(row),
        "plan.sequence_parallel": 0.0,
        "plan.recompute": 2.0,
        "activations.attention_dropout": 1.0,
        "activations.hidden_dropout": 1.0,
    }


# ---- Which reader a row has ---------------------------------------------------------------------


def _starts(column: str, start: str) -> Callable[[Row], bool]:
    return lambda row: row.cells.get(column, "").startswith(start)


def _has(*names: str) -> Callable[[Row], bool]:
    return lambda row: bool({*names} & {*stated_options(row)})


READERS: tuple[tuple[Callable[[Row], bool], Callable[[Row], Settings]], ...] = (
    (_starts("zero_fsdp", "FSDP2"), fsdp2_settings),
    (_starts("zero_fsdp", "FSDP "), foundry_settings),
    (_has("engine"), log_settings),
    (_has("tensor-model-parallel-size", "num-layers"), megatron_settings),
    (_starts("source", "BigScience 176B"), chronicle_settings),
    (lambda row: True, common_settings),
)
