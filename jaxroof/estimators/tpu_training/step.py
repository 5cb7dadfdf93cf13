"""A training step under MaxText on a torus of TPUs: its time with an interval, memory, legality.

Source: docs/models/networks.md, sections 9, 10 and 12.
"""

from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from jaxroof.catalog import lookup as named
from jaxroof.catalog.architecture import Architecture
from jaxroof.catalog.system import System, usable_memory
from jaxroof.errors import refusal, unknown
from jaxroof.estimator import Estimator, Limit
from jaxroof.estimators.legality import reasons_of, verdicts
from jaxroof.estimators.questions import QUESTIONS
from jaxroof.estimators.tpu_training.inputs import TpuInputs, TpuPlan, chip_of, chips_of
from jaxroof.estimators.tpu_training.layer import Work, work
from jaxroof.estimators.tpu_training.legality import RULES
from jaxroof.estimators.tpu_training.plans import close, plans, why_not
from jaxroof.estimators.tpu_training.report import TpuReport, WholeTpuReport
from jaxroof.estimators.tpu_training.slices import Ways, sides, ways
from jaxroof.estimators.tpu_training.step_time import StepTime, memory, step_time
from jaxroof.estimators.training.interval import MAXTEXT, half_width
from jaxroof.estimators.training.model_size import size, token_flops
from jaxroof.estimators.training.recipe import Recipe
from jaxroof.formulas.arithmetic import exp, where
from jaxroof.records import Number, value_or

DAY = 86400.0  # [s]
FITTING = 0.9  # share of the memory below which the most that a run may take surely fits
EXTENT = {  # the most of any measured run
    "gpus": (8192.0, "chips"),
    "sequence": (131072.0, "tokens of a sequence"),
    "slices": (32.0, "slices"),
    "tensor": (16.0, "tensor ranks"),
    "context": (8.0, "context ranks"),
}
FORMATS: Mapping[str, tuple[str, ...]] = {"bf16": (), "int8": ("int8",), "fp8": ("fp8",)}


def links(
    inputs: TpuInputs,
    _: Recipe,
    *,
    slice: Any,
    tensor: Any,
    context: Any,
    data: Any,
    tensor_axes: Any,
    context_axes: Any,
    data_axes: Any,
) -> Ways:
    """Return the links one way that each logical axis owns."""
    chip = chip_of(inputs)
    return ways(chip, sides(slice), (tensor, context, data), (tensor_axes, context_axes, data_axes))


def device_limit(inputs: TpuInputs) -> Number:
    """Return the memory of one device that a step may fill [B]."""
    chip = chip_of(inputs)
    return usable_memory(inputs.system) / chip.devices


def step(inputs: TpuInputs, recipe: Recipe, *, work: Work, links: Ways) -> TpuReport:
    """Return the time, memory and verdicts of one optimizer step; its parts sum to its time.

    low = t exp(-h), high = t exp(h)

    Units: see TpuReport.
    """
    plan, model = inputs.plan, inputs.model
    assert plan is not None
    time, held = step_time(inputs, recipe, plan, work, links), memory(inputs, recipe, plan)
    total, limit = time.step_time, device_limit(inputs)
    place = regime(inputs, plan)
    half = half_width(place)
    tokens = inputs.global_batch * model.sequence
    rate = tokens / (total * chips_of(inputs))
    flops = token_flops(model, recipe)["flops_megatron_causal"]
    whole = value_or(inputs.training_tokens, model.training_tokens)
    surely = where(held.high < FITTING * limit, 2.0, 1.0)
    found = TpuReport(
        step_time=total,
        step_time_low=total * exp(-half),
        step_time_high=total * exp(half),
        regime=place,
        throughput=inputs.global_batch / total,
        tokens_per_second=rate,
        mfu=flops * rate / inputs.system.matrix_flops,
        training_days=whole / tokens * total / DAY,
        memory=held.low,
        memory_high=held.high,
        memory_verdict=where(held.low > limit, 0.0, surely),
        memory_states=held.state,
        memory_kept=held.kept,
        **times(time, plan.microbatches * model.layers, plan.microbatches),
        **verdicts([rule.name for rule in RULES], RULES, inputs, memory_fits=held.low <= limit),
    )
    if inputs.operation is None:
        return found
    from jaxroof.estimators.whole_run.run import with_run  # not above: few ask

    parameters = size(model, recipe)["parameters"]
    shares = found.time_gather + found.time_slices + found.time_data  # of weights and gradients
    run: TpuReport = with_run(
        WholeTpuReport, found, inputs, whole, chips_of(inputs), parameters, data=shares
    )
    return run


def times(time: StepTime, layers: Number, passes: Number) -> dict[str, Number]:
    """Return the parts of the step time; ``layers`` and ``passes`` are how often each is paid."""
    layer = time.layer
    return {
        "time_compute": layers * (layer.matmul + layer.attention + layer.experts)
        + passes * (time.head + time.embedding),
        "time_memory": layers * (layer.elementwise + layer.cast),
        "time_recompute": layers * layer.recompute,
        "time_tensor": layers * (layer.tensor_comm + layer.context_comm),
        "time_gather": layers * layer.fsdp_exposed,
        "time_slices": time.growth + time.dcn_comm,
        "time_data": time.data_comm,
        "time_update": time.optimizer,
    }


def time_alone(inputs: TpuInputs, recipe: Recipe, *, work: Work, links: Ways) -> Number:
    """Return the step time alone, that of the report [s]."""
    assert inputs.plan is not None
    return step_time(inputs, recipe, inputs.plan, work, links).step_time


def least_memory(inputs: TpuInputs, recipe: Recipe) -> Number:
    """Return the least memory of a device alone, that of the report [B]."""
    assert inputs.plan is not None
    return memory(inputs, recipe, inputs.plan).low


# ---- How far it is to be trusted ----------------------------------------------------------------


def regime(inputs: TpuInputs, plan: TpuPlan) -> Number:
    """Return the place among the regimes: dense or routed, measured or beyond what was."""
    chip = chip_of(inputs)
    known = chip.calibrated > 0.0
    for value, (most, _) in zip(_extent(inputs, plan), EXTENT.values(), strict=True):
        known = known & (value <= most)
    return MAXTEXT + where(inputs.model.experts > 0.0, 1.0, 0.0) + where(known, 0.0, 2.0)


def _extent(inputs: TpuInputs, plan: Any) -> tuple[Number, ...]:
    return (chips_of(inputs), inputs.model.sequence, plan.slices, plan.tensor, plan.context)


def outside(inputs: TpuInputs, plan: Any) -> Iterator[str]:
    """Yield in words what of a step was never measured."""
    chip = chip_of(inputs)
    if not float(chip.calibrated) > 0.0:
        yield "this chip (its constants are those of the nearest one)"
    for value, (most, words) in zip(_extent(inputs, plan), EXTENT.values(), strict=True):
        if float(value) > most:
            yield f"{float(value):,.0f} {words} (measured: up to {most:,.0f})"


# ---- The estimator ------------------------------------------------------------------------------

UNKNOWN = {  # numbers of a model whose layers MaxText's formulas do not have
    "mamba_layers": "Mamba-2 layers",
    "delta_layers": "gated DeltaNet layers",
    "kda_layers": "Kimi Delta Attention layers",
    "index_layers": "sparse attention",
    "expert_latent": "experts in a latent width",
    "classes": "a head of classes",
}


def known_architecture(name: Any) -> tuple[Architecture, dict[str, str]]:
    """Return a model and its choices, if all its layers have a formula here.

    Raises: InputError for one that has not.
    """
    model, choices = named.trained_architecture(name)
    lacks = [words for field, words in UNKNOWN.items() if float(getattr(model, field)) > 0.0]
    if float(model.kv_rank) > 0.0 and not float(model.q_rank) > 0.0:
        lacks.append("queries without a latent beside keys with one")
    if lacks:
        raise refusal(str(name), f"{lacks[0]}: no formula of MaxText's step; expected without")
    return model, choices


def expand(
    settings: dict[str, Any], tables: dict[str, dict[str, Any]], _: Any
) -> tuple[dict[str, Any], dict[str, dict[str, Any]]]:
    """Return settings with the precision replaced by the flags that it stands for.

    Raises: InputError for a format that MaxText does not have, or on an axis.
    """
    if any("precision" in table for table in tables.values()):
        raise refusal("precision", "on an axis; expected software.int8 or software.fp8 there")
    rest = {name: value for name, value in settings.items() if name != "precision"}
    asked = settings.get("precision")
    if asked is None:
        return rest, tables
    if asked not in FORMATS:
        raise unknown("precision", asked, "number format of MaxText on TPUs", FORMATS)
    flags = {f"software.{name}": float(name in FORMATS[asked]) for name in ("int8", "fp8")}
    return {**flags, **rest}, tables


def example() -> TpuInputs:
    """Return Llama 3.1 405B on a slice of 512 chips of TPU v5p."""
    model, _ = named.architecture_with_choices("llama3.1-405b")
    system: System = named.tpu_system("tpu-v5p")
    plan = TpuPlan(slice=44.0, fsdp=64.0, tensor=8.0, tensor_axes=1.0, remat=3.0)
    return TpuInputs(model=model, system=system, gpus=512.0, global_batch=512.0, plan=plan)


LIMITS: Iterable[Limit] = (Limit("memory", device_limit),)
tpu_training = Estimator(
    name="tpu_training",
    about=QUESTIONS["tpu_training"],
    inputs=TpuInputs,
    plan=TpuPlan,
    recipe=Recipe(),
    parts={"work": work, "links": links},
    step=step,
    candidates=plans,
    reasons=reasons_of(RULES),
    why_not=why_not,
    close=close,
    structural=("gpus", "global_batch", "model", "system.tpu", "system.torus_axes"),
    objective="step_time",
    limits=tuple(LIMITS),
    alone={"step_time": time_alone, "memory": least_memory},
    names={"model": known_architecture, "system": named.tpu_system},
    shorthand={"sequence": "model.sequence"},
    expand=expand,
    stands=("precision",),
    example=example,
)
