"""The inputs of a measured step: model, plan and machine, with what a blank cell means.

Source: docs/models/training_step_today.md, section 9.
"""

import re
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from typing import Any, NamedTuple

from jaxroof.errors import InputError, refusal
from jaxroof.validation.measured_rows import Row, configuration, count, number, text
from jaxroof.validation.steps.step_software import Settings, software_of, stated_software

GATED = ("llama", "internlm", "mistral", "mixtral", "qwen", "gemma", "grok")
CHIPS = ("GB300", "GB200", "B300", "B200", "H200", "H100", "H800", "A100")
SYSTEMS = {  # chip -> system of the catalogue, generation, network of one accelerator [B/s]
    "A100 40": ("a100-40-sxm", "ampere", 25e9),
    "A100": ("a100-80-sxm", "ampere", 25e9),
    "H100": ("h100-nvs8", "hopper", 50e9),
    "H800": ("h100-nvs8", "hopper", 50e9),
    "H200": ("h200-141-sxm", "hopper", 50e9),
    "B200": ("b200-180-sxm", "blackwell", 50e9),
    "GB200": ("gb200-nvl72", "blackwell", 50e9),
    "B300": ("gb300-nvl72", "blackwell-ultra", 100e9),
    "GB300": ("gb300-nvl72", "blackwell-ultra", 100e9),
}
NETWORKS = {  # source -> network of one accelerator [B/s]
    "vTrain": 12.5e9,
    "BigScience": 6.25e9,
    "InternEvo": 6.25e9,
    "MaxText": 25e9,
}
LATENT = {
    "head_size": 192.0,
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


class StepRow(NamedTuple):
    """A measured step as a question of the estimator ``training``."""

    row: Row
    chip: str  # generation
    settings: Settings
    measured: float | None  # [s]

    @property
    def system(self) -> str:
        """Return the system that it ran on, by name."""
        return str(self.settings["system"])

    @property
    def routed(self) -> bool:
        """Return whether its model has experts."""
        return float(self.settings["model.experts"]) > 0.0


def step_rows(
    rows: Iterable[Row], machines: Mapping[str, tuple[str, str, float]] = SYSTEMS
) -> Iterator[StepRow | InputError]:
    """Yield the numbers of every row, or what is wrong with it.

    Rows of one configuration are read once.

    ``machines`` are, by the accelerator that a row names, its system, generation and network.
    """
    known: dict[Any, StepRow | InputError] = {}
    for row in rows:
        key = configuration(row)
        if key not in known:
            known[key] = _tried(_configured, row, machines)
        one = known[key]
        yield one if isinstance(one, InputError) else _tried(_measured_too, one, row)


def _tried(read: Callable[..., StepRow], *given: Any) -> StepRow | InputError:
    try:
        return read(*given)
    except InputError as error:
        return error


def step_row(row: Row) -> StepRow:
    """Return the numbers of a measured row.

    Raises: InputError that names the column for what is lacking or not modelled.
    """
    return _measured_too(_configured(row, SYSTEMS), row)


def _measured_too(one: StepRow, row: Row) -> StepRow:
    return one._replace(row=row, measured=_measured(row))


def _configured(row: Row, machines: Mapping[str, tuple[str, str, float]]) -> StepRow:
    """Return the numbers of a row without what was measured."""
    if row.cells.get("task", "pretrain") == "LoRA":
        raise refusal("task", "LoRA: not modelled; expected pretrain or SFT")
    kind = chip_of(row, machines)
    system, generation, slow = machines[kind]
    source = text(row, "source")
    for name, rate in NETWORKS.items():
        slow = rate if source.startswith(name) else slow
    model = model_of(row)
    routed = model["experts"] > 0.0
    settings: Settings = {
        "system": system,
        "system.slow_bandwidth": slow,
        "system.nics": 1.0,
        **{f"model.{name}": value for name, value in model.items()},
        **choices_of(row, model),
        **stated_software(row, kind.split()[0], routed),
    }
    settings |= plan_of(row, model, float(settings.get("plan.zero_stage", 1.0)))
    return StepRow(row=row, chip=generation, settings=settings, measured=None)


def _measured(row: Row) -> float | None:
    """Return the seconds of a step that a row states, None if it states none."""
    for column in ("derived_step_time_s", "measured_step_time_s"):
        if column in row.cells:
            return number(row, column)
    return None


def chip_of(row: Row, machines: Collection[str] = SYSTEMS) -> str:
    """Return the kind of accelerator of a row.

    Raises: InputError if the system names none of those that are known.
    """
    stated = text(row, "system")
    others = [name for name in machines if name not in SYSTEMS]
    for name in (*CHIPS, *others):
        if re.search(rf"(?<![A-Z]){name}(?!\d)", stated):
            small = name == "A100" and re.search(r"40 ?GB", stated)
            return "A100 40" if small else name
    known = ", ".join((*CHIPS, *others))
    raise refusal("system", f"{stated}: not calibrated; expected one of {known}")


ASSUMED = {  # columns of a model's shape: what a blank cell is taken for
    "heads": "hidden / 128",
    "kv_heads": "as many as heads",
    "ffn": "4 x hidden",
    "vocab": "50,257",
    "seq": "2,048",
}


def assumed(rows: Iterable[Row]) -> dict[str, int]:
    """Return the columns of a model's shape that some rows leave blank, with how many."""
    blank = Counter(name for row in rows for name in ASSUMED if not row.cells.get(name))
    return {name: blank[name] for name in ASSUMED if blank[name]}


def model_of(row: Row) -> dict[str, float]:
    """Return the shape of a row's model; a blank cell has the value of ASSUMED.

    Raises: InputError if layers or width are lacking.
    """
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
    return model


def choices_of(row: Row, model: Mapping[str, float]) -> Settings:
    """Return the structural choices of a row's model, and its learned positions.

    Assumes: a model without a gate is of GPT's kind, its head tied, its positions learned.
    """
    name = row.cells.get("model", "").casefold()
    gated = model["experts"] > 0.0 or any(word in name for word in GATED)
    return {
        "attention": "latent" if "kv_rank" in model else "heads",
        "mlp": "gated" if gated else "plain",
        "embeddings": "separate" if gated else "tied",
        "model.positions": 0.0 if gated else model["sequence"],
    }


def plan_of(row: Row, model: Mapping[str, float], zero_stage: float) -> Settings:
    """Return the plan of a row, and the sequences of a step.

    Raises: InputError if its degrees contradict its accelerators, or none is stated.
    """
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
        "plan.expert": count(row, "ep", 1.0) if model["experts"] else 1.0,
    }


def _chunks(row: Row, layers: float, pipeline: float) -> float:
    """Return the chunks of layers on a rank where a row states none."""
    source: Any = text(row, "source")
    if source.startswith("Megatron-LM README"):
        return layers / pipeline  # a layer a chunk
    if source.startswith("Llama 3 technical report"):
        return 8.0
    nemotron = "340" in row.cells.get("model", "")
    return 12.0 if source.startswith("NVIDIA DGX Cloud") and nemotron else 1.0
