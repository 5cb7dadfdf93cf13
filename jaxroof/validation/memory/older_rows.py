"""Rows of Megatron-LM and DeepSpeed of 2021-22: GPT in half precision with full recomputation.

Source: docs/models/parameters_flops_memory.md, section 10.5.
"""

from typing import NamedTuple

from jaxroof.errors import refusal
from jaxroof.estimators.training.memory_2021 import Engine
from jaxroof.estimators.training.memory_inputs import (
    Activations,
    MemoryInputs,
    MemoryPlan,
    States,
)
from jaxroof.records import checked
from jaxroof.validation.measured_rows import Options, Row, count, option_share, options, text
from jaxroof.validation.memory.models import GPT2, described, plain_architecture
from jaxroof.validation.memory.plans import degrees

KNOWN = (  # options of the logs
    *("engine", "zero_stage", "fp16", "local-ddp-no-contiguous-buffers", "attention_dropout"),
    *("hidden_dropout", "partition_activations", "iteration", "optimizer_stepped"),
)
ENGINES = {  # who runs, ZeRO stage, precision
    ("deepspeed", "0", "FP16"): Engine.DEEPSPEED,
    ("deepspeed", "1", "FP16"): Engine.DEEPSPEED_FP16_ZERO_1,
    ("deepspeed", "1", "BF16"): Engine.DEEPSPEED_BF16_ZERO_1,
    ("megatron", "0", "FP16"): Engine.MEGATRON,
}
EMBEDDINGS_ARE_SLOTS = "pp-partition type:transformer|embedding"


class OlderQuestion(NamedTuple):
    """A row as the codes of 2021-22 see it."""

    inputs: MemoryInputs
    engine: Engine
    split: tuple[int, ...]  # layers of every stage, where they are not even


def log_question(row: Row) -> tuple[OlderQuestion, str]:
    """Return the question of a row with a log's options, and the kind of row.

    Raises: InputError for what is lacking or not modelled.
    """
    given = options(row)
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
    if given.get("optimizer_stepped") == "0":
        if engine is not Engine.MEGATRON:
            raise refusal("optimizer_stepped", "no step of the optimizer: not modelled")
        engine = Engine.MEGATRON_FIRST_STEP
    who = "DeepSpeed" if engine is Engine.DEEPSPEED else "Megatron"
    return OlderQuestion(_inputs(row), engine, ()), who


def _engine(given: Options, precision: str) -> Engine:
    asked = given.get("engine", ""), given.get("zero_stage", ""), precision
    if asked not in ENGINES:
        raise refusal("zero_stage", f"{asked[0] or 'no engine'} with ZeRO {asked[1]}: not modelled")
    return ENGINES[asked]


def chronicle_question(row: Row) -> tuple[OlderQuestion, str]:
    """Return the question of a row of the BigScience chronicle, and the kind of row.

    The vocabulary is stated, the MLP is four times as wide; FP16 where no precision is printed.
    Raises: InputError for what is lacking or not modelled.
    """
    note, precision = row.cells.get("note", ""), row.cells.get("precision", "FP16")
    stage = text(row, "zero_fsdp").removeprefix("ZeRO-")
    engine = _engine({"engine": "deepspeed", "zero_stage": stage}, precision)
    wide = {"ffn": f"{4.0 * count(row, 'hidden')}", "kv_heads": text(row, "heads")}
    filled = Row(row.line, {**wide, **row.cells})
    layers, pipeline = count(row, "layers"), count(row, "pp")
    slots = layers + 2.0 * (EMBEDDINGS_ARE_SLOTS in note)
    if slots % pipeline:
        raise refusal("pp", "does not divide the layers, and their split is not stated")
    each = int(slots // pipeline)
    split = (each - 1, *[each] * int(pipeline - 2.0), each - 1) if slots > layers else ()
    if split and pipeline < 2.0:
        raise refusal("pp", "one stage has no split of layers")
    kind = "DeepSpeed, BF16" if precision == "BF16" else "DeepSpeed, FP16 by rule"
    return OlderQuestion(_inputs(filled), engine, split), kind


def _inputs(row: Row) -> MemoryInputs:
    if text(row, "recompute") != "full":
        raise refusal("recompute", "the formulas of these codes have full recomputation")
    if row.cells.get("seqpar", "no") != "no" or count(row, "vp", 1.0) > 1.0:
        raise refusal("seqpar", "sequence parallelism and chunks: not in these codes")
    if count(row, "cp", 1.0) > 1.0 or count(row, "moe_experts", 0.0) > 0.0:
        raise refusal("cp", "context parallelism and experts: not in these codes")
    architecture = plain_architecture(row, positions=count(row, "seq"))
    model, parts = described(architecture, GPT2)
    return checked(
        MemoryInputs(
            model=model,
            counts=parts,
            sequence=count(row, "seq"),
            plan=MemoryPlan(**degrees(row), sequence_parallel=0.0),
            states=States(),
            activations=Activations(attention_dropout=1.0, hidden_dropout=1.0),
        )
    )
