"""Measured steps as inputs of ``training`` by path, with what a blank cell means.

Source: docs/models/training_step_today.md, section 9; docs/models/layers_2026.md, 7 and 9.
"""

import re
from collections.abc import Mapping

from jaxroof.catalog import lookup
from jaxroof.errors import refusal
from tools.rows.common import Row, Settings, count, number, text
from tools.rows.experts import expert_settings, filled, known_choices, layers_of
from tools.rows.models import by_path
from tools.rows.software import software_of, stated_software

GATED = ("llama", "internlm", "mistral", "mixtral", "qwen", "gemma", "grok")
CHIPS = ("GB300", "GB200", "B300", "B200", "H200", "H100", "H800", "A100")
SYSTEMS = {  # chip -> system of the catalogue
    "A100 40": "a100-40-sxm",
    "A100": "a100-80-sxm",
    "H100": "h100-nvs8",
    "H800": "h100-nvs8",
    "H200": "h200-141-sxm",
    "B200": "b200-180-sxm",
    "GB200": "gb200-nvl72",
    "B300": "gb300-nvl72",
    "GB300": "gb300-nvl72",
}
NETWORKS = {  # source -> network of one accelerator [B/s]
    "vTrain": 12.5e9,
    "BigScience": 6.25e9,
    "InternEvo": 6.25e9,
    "MaxText": 25e9,
}
LATENT = {
    "head_size": 128.0,  # of what is rotated, as the fit had it
    "q_rank": 1536.0,
    "kv_rank": 512.0,
    "nope_size": 128.0,
    "rope_size": 64.0,
    "value_size": 128.0,
}
ROUTED = {  # beginning of a name -> numbers that no column states
    "DeepSeek-V3": {
        **LATENT,
        "expert_feedforward": 2048.0,
        "shared_feedforward": 2048.0,
        "first_dense_layers": 3.0,
        "mtp_layers": 1.0,
    },
    "DeepSeek-V2": {
        **LATENT,
        "expert_feedforward": 1536.0,
        "shared_feedforward": 3072.0,
        "first_dense_layers": 1.0,
    },
    "Kimi K2": {
        **LATENT,
        "expert_feedforward": 2048.0,
        "shared_feedforward": 2048.0,
        "first_dense_layers": 1.0,
    },
}
STRONG = "figure"  # of the Megatron-LM README: strong scaling at one split
TITAN = {"hbm_bandwidth": 2.4e12, "power": (500.0 / 700.0) ** 0.76}  # torchtitan's H100 of 96 GB
EXPERT_GROUPS = {True: 64.0, False: 8.0}  # of AutoModel's recipes: on 64 accelerators, on fewer


def step_settings(row: Row) -> Settings:
    """Return the inputs of a measured step, and what of it stands beside them."""
    kind = chip_of(row)
    row, notes = filled(row)
    model = model_of(row)
    routed = model["experts"] > 0.0
    settings: Settings = {
        "system": SYSTEMS[kind],
        **_network(text(row, "source")),
        **by_path(model),
        **choices_of(row, model),
        **stated_software(row, kind.split()[0], routed),
        **_adapters(row),
    }
    settings |= plan_of(row, model, float(settings.get("plan.zero_stage", 1.0)))
    if routed:
        settings |= expert_settings(row, kind, settings)
    if software_of(row) == "torchtitan":
        settings |= _of_torchtitan(row, kind, settings)
    return {**settings, **notes}


def _adapters(row: Row) -> Settings:
    """Return what a row's recipe trains beside frozen weights: its benchmarks adapt qkv alone.

    Rank 8 at NeMo 24.12 and 25.04 (``finetune_recipe``, its performance mode), 16 for 70 billion
    parameters at Megatron-Bridge (``llama3_70b_peft_config``, scripts/performance), else 32, the
    default of both.
    """
    if row.cells.get("task", "pretrain") != "LoRA":
        return {}
    source = text(row, "source")
    rank = 8.0 if source.startswith("NVIDIA DGX Cloud") else 32.0
    if source.startswith("NVIDIA Megatron-Bridge") and "70B" in row.cells.get("model", ""):
        rank = 16.0
    return {"lora_rank": rank, "adapters": "qkv"}


def measured_step(row: Row) -> Settings:
    """Return the seconds of a step that a row states, if it states any."""
    for column in ("derived_step_time_s", "measured_step_time_s"):
        if column in row.cells:
            return {"#measured_step_time_s": number(row, column)}
    return {}


def _of_torchtitan(row: Row, kind: str, settings: Settings) -> Settings:
    """Return what torchtitan's notes say of its kernels, and what its pipelines do.

    They keep gathered weights and sum gradients once a step, of as many microbatches as stages.
    """
    note, found = row.cells.get("note", "").casefold(), {}
    if kind.split()[0] != "A100":
        overlap = float("async" in note)
        found = {
            "software.fused": float("compile" in note or "float8" in note),
            "software.tensor_overlap": overlap,
            "software.tensor_async": overlap,
        }
    system = lookup.training_system(SYSTEMS[kind])
    slower = TITAN["power"] if kind == "H100" else 1.0
    memory = TITAN["hbm_bandwidth"] if kind == "H100" else system.hbm_bandwidth
    found |= {
        "system.hbm_bandwidth": float(memory),
        "system.matrix_flops": float(system.matrix_flops) * slower,
        "system.chip.fp8_flops": float(system.chip.fp8_flops) * slower,
    }
    stages = settings["plan.pipeline"]
    if stages > 1.0:
        found |= {
            "plan.reshard": 0.0,
            "software.pipeline_overlap": 0.0,
            "plan.microbatch": settings["global_batch"] / (settings["plan.data"] * stages),
            "plan.interleave": 2.0 if "interleaved" in note else 1.0,
        }
    return found


def _network(source: str) -> Settings:
    """Return the network of one accelerator, where it is not that of the catalogue."""
    for name, rate in NETWORKS.items():
        if source.startswith(name):
            return {"system.slow_bandwidth": rate, "system.nics": 1.0}
    return {}


def chip_of(row: Row) -> str:
    """Return the kind of accelerator of a row."""
    stated = text(row, "system")
    for name in CHIPS:
        if re.search(rf"(?<![A-Z]){name}(?!\d)", stated):
            small = name == "A100" and re.search(r"40 ?GB", stated)
            return "A100 40" if small else name
    raise refusal("system", f"{stated}: not calibrated; expected one of {', '.join(CHIPS)}")


def model_of(row: Row) -> dict[str, float]:
    """Return the shape of a row's model; a blank cell is what GPT has."""
    name = row.cells.get("model", "")
    layers, hidden = count(row, "layers"), count(row, "hidden")
    heads = count(row, "heads", max(1.0, hidden // 128.0))
    feedforward = count(row, "ffn", 4.0 * hidden)
    experts = count(row, "moe_experts", 0.0) if "moe_experts" in row.cells else 0.0
    known = next((more for start, more in ROUTED.items() if name.startswith(start)), {})
    size = hidden / heads
    if name.startswith("Qwen3"):
        size = 128.0
    if name.startswith("gpt-oss"):
        size = 64.0
    model = {
        "layers": layers,
        "hidden": hidden,
        "heads": heads,
        "kv_heads": count(row, "kv_heads", heads),
        "head_size": size,
        "feedforward": feedforward,
        "vocabulary": count(row, "vocab", 50257.0),
        "sequence": count(row, "seq", 2048.0),
        "experts": experts,
        "active_experts": count(row, "moe_topk", 1.0) if experts else 0.0,
        **dict.fromkeys(("expert_feedforward", "shared_feedforward", "first_dense_layers"), 0.0),
        "mtp_layers": 0.0,
    }
    if experts:
        shared = feedforward if name.startswith("Llama 4") else 0.0
        model |= {"expert_feedforward": feedforward, "shared_feedforward": shared, **known}
        if "cut" in name:
            model["mtp_layers"] = 0.0
            model["first_dense_layers"] = min(model["first_dense_layers"], 1.0)
        if software_of(row) == "automodel":
            model["mtp_layers"] = 0.0
    return model | layers_of(row, layers)


def choices_of(row: Row, model: Mapping[str, float]) -> Settings:
    """Return the structural choices of a row's model, and its learned positions.

    Assumes: a model without a gate is of GPT's kind, its head tied, its positions learned.
    """
    name = row.cells.get("model", "").casefold()
    gated = model["experts"] > 0.0 or any(word in name for word in GATED)
    choices = {
        "attention": "latent" if "kv_rank" in model else "heads",
        "mlp": "gated" if gated else "plain",
        "embeddings": "separate" if gated else "tied",
        "model.positions": 0.0 if gated else model["sequence"],
    }
    return choices | known_choices(row, model)


def plan_of(row: Row, model: Mapping[str, float], zero_stage: float) -> Settings:
    """Return the plan of a row, and the sequences of a step."""
    source, stated = text(row, "source"), row.cells
    strong = source.startswith("Megatron-LM README") and STRONG in source
    if source.startswith("NVIDIA DGX Cloud") and not {"tp", "pp"} & set(stated):
        raise refusal("tp", "neither tp nor pp is stated")
    tensor = count(row, "tp", 8.0 if strong else 1.0)
    pipeline = count(row, "pp", 6.0 if strong else 1.0)
    context = count(row, "cp", 1.0)
    batch, gpus = count(row, "gbs"), count(row, "gpus")
    data = gpus / (tensor * pipeline * context)
    if data != int(data):
        raise refusal("gpus", f"given {gpus:.0f}, which tp pp cp do not divide")
    interleave = count(row, "vp", _chunks(row, model["layers"], pipeline))
    share = batch / data
    usual = share if zero_stage > 1.5 else 1.0 if pipeline > 1.0 else min(4.0, share)
    microbatch = number(row, "mbs", usual)
    if data * microbatch > batch:
        said = f"{microbatch:g} sequences on each of {data:.0f} replicas"
        raise refusal("gbs", f"given {batch:.0f}, fewer than {said}")
    return {
        "global_batch": batch,
        "plan.tensor": tensor,
        "plan.pipeline": pipeline,
        "plan.data": data,
        "plan.context": context,
        "plan.interleave": interleave if pipeline > 1.0 else 1.0,
        "plan.microbatch": microbatch,
        "plan.expert": _experts(row, gpus / pipeline) if model["experts"] else 1.0,
    }


def _experts(row: Row, ranks: float) -> float:
    """Return the expert degree of a row; AutoModel's recipes have one where its table has none."""
    if software_of(row) == "automodel" and row.cells.get("ep", "-") == "-":
        return min(ranks, EXPERT_GROUPS[count(row, "gpus") >= 64.0])
    return count(row, "ep", 1.0)


def _chunks(row: Row, layers: float, pipeline: float) -> float:
    """Return the chunks of layers on a rank where a row states none."""
    source = text(row, "source")
    if source.startswith("Megatron-LM README"):
        return layers / pipeline  # a layer a chunk
    if source.startswith("Llama 3 technical report"):
        return 8.0
    nemotron = "340" in row.cells.get("model", "")
    return 12.0 if source.startswith("NVIDIA DGX Cloud") and nemotron else 1.0
