"""Servers on the seam: an aggregated one, a pool that takes prompts, and a pool that decodes.

Source: docs/models/serving.md, sections 6 to 9.
"""

import dataclasses
from collections.abc import Callable
from typing import Any

import numpy as np

from jaxroof.catalog import lookup as named
from jaxroof.catalog.architecture import Architecture
from jaxroof.errors import refusal
from jaxroof.estimator import Estimator
from jaxroof.estimators.legality import reasons_of
from jaxroof.estimators.questions import QUESTIONS
from jaxroof.estimators.serving import server
from jaxroof.estimators.serving.inputs import (
    FORMATS,
    DecodeInputs,
    DecodePlan,
    PrefillInputs,
    PrefillPlan,
    ServingInputs,
    ServingPlan,
    Split,
    Workload,
)
from jaxroof.estimators.serving.legality import (
    DECODE_LIMITS,
    DECODE_RULES,
    LIMITS,
    NEEDS,
    NO_RATE,
    NO_SLOW,
    PREFILL_LIMITS,
    PREFILL_RULES,
    RULES,
    is_given,
)
from jaxroof.estimators.serving.memory import prefill_memory, server_memory
from jaxroof.estimators.serving.named_settings import STANDS, expand
from jaxroof.estimators.serving.plans import (
    alike,
    close,
    decode_plans,
    plans,
    prefill_plans,
    why_not,
)
from jaxroof.estimators.serving.step import both, decode, prompt
from jaxroof.estimators.training.contradictions import of_model, refuse
from jaxroof.estimators.training.recipe import Recipe

UNKNOWN = {  # numbers of a model whose layers have no formula here
    "mamba_layers": "Mamba-2 layers",
    "delta_layers": "gated DeltaNet layers",
    "kda_layers": "Kimi Delta Attention layers",
    "expert_latent": "experts in a latent width",
    "classes": "a head of classes",
}
OWN_SHAPE = ("heads", "kv_heads", "head_size")  # that layers with a window may have otherwise


def served_architecture(name: Any) -> tuple[Architecture, dict[str, str]]:
    """Return a model and its choices, if all its layers have a formula here.

    Raises: InputError for one that has not.
    """
    model, choices = named.trained_architecture(name)
    lacks = [words for field, words in UNKNOWN.items() if float(getattr(model, field)) > 0.0]
    for field in OWN_SHAPE:
        own = getattr(model, f"window_{field}")
        if own is not None and float(own) != float(getattr(model, field)):
            lacks.append("layers with a window whose heads differ")
    if lacks:
        raise refusal(str(name), f"{lacks[0]}: no formula of serving; expected a model without")
    return model, choices


def check(inputs: ServingInputs, recipe: Recipe) -> None:
    """Check that the numbers of a server go together.

    Raises: InputError for the first that does not go with the others.
    """
    workload, system = inputs.workload, inputs.system
    if workload.hit is not None and np.any(workload.hit >= 1.0):
        said = "given 1: every token of a prompt is in the cache; expected a share below 1"
        raise refusal("workload.hit", said)
    refuse(of_model(inputs.model, recipe))
    for place in ("attention_format", "mlp_format"):
        code = getattr(inputs.precision, place)
        for rate, forms in NEEDS.items():
            needed = [form for form in forms if np.any(code == FORMATS.index(form))]
            if needed and not is_given(getattr(system, f"{rate}_flops")):
                said = f"{needed[0]}: {NO_RATE}; expected another format, or system.{rate}_flops"
                raise refusal(f"precision.{place}", said)


def check_prefill(inputs: PrefillInputs, recipe: Recipe) -> None:
    """Check the same, and that caches can be handed over."""
    check(inputs, recipe)
    if not is_given(inputs.system.slow_bandwidth):
        said = f"a pool hands caches over, and {NO_SLOW.partition(' (')[0]}"
        raise refusal("system.slow_bandwidth", f"{said}; expected a value")


def example() -> ServingInputs:
    """Return Llama 3 70B on H100 in 8 bits."""
    model, _ = named.architecture_with_choices("llama3-70b")
    return ServingInputs(
        model=model,
        system=named.serving_system("h100-nvs8"),
        gpus=8.0,
        workload=Workload(prompt=1024.0, output=1024.0),
        plan=ServingPlan(tensor=4.0, batch=64.0, chunk=1024.0),
    )


def _with(inputs: type[ServingInputs], plan: Split) -> Callable[[], ServingInputs]:
    """Return a function that returns the same with a pool."""
    return lambda: inputs(**{**vars(example()), "plan": plan})


serving = Estimator(
    name="serving",
    about=QUESTIONS["serving"],
    inputs=ServingInputs,
    plan=ServingPlan,
    recipe=Recipe(),
    parts={"decode": decode, "prompt": prompt, "both": both},
    step=server.serve,
    candidates=plans,
    alike=alike,
    reasons=reasons_of(RULES),
    why_not=why_not(RULES),
    close=close,
    structural=("gpus", "model", "precision", "system.fast_domain"),
    objective="accelerator_time",
    limits=LIMITS,
    alone=server.alone(server.served, server_memory, "accelerator_time", "ttft", "tpot", "busy"),
    names={"model": served_architecture, "system": named.serving_system},
    shorthand={
        **{name: f"workload.{name}" for name in Workload.__dataclass_fields__},
        **{name: f"limits.{name}" for name in ("ttft", "tpot", "load")},
    },
    expand=expand,
    stands=STANDS,
    check=check,
    example=example,
)
serving_decode = dataclasses.replace(
    serving,
    name="serving_decode",
    about=QUESTIONS["serving_decode"],
    inputs=DecodeInputs,
    plan=DecodePlan,
    parts={"decode": decode},
    step=server.decode,
    candidates=decode_plans,
    reasons=reasons_of(DECODE_RULES),
    why_not=why_not(DECODE_RULES),
    limits=DECODE_LIMITS,
    alone=server.alone(server.decoded, server_memory, "accelerator_time", "tpot"),
    example=_with(DecodeInputs, DecodePlan(tensor=4.0, batch=64.0)),
)
serving_prefill = dataclasses.replace(
    serving,
    name="serving_prefill",
    about=QUESTIONS["serving_prefill"],
    inputs=PrefillInputs,
    plan=PrefillPlan,
    parts={"prompt": prompt},
    step=server.prefill,
    candidates=prefill_plans,
    reasons=reasons_of(PREFILL_RULES),
    why_not=why_not(PREFILL_RULES),
    limits=PREFILL_LIMITS,
    alone=server.alone(server.prefilled, prefill_memory, "accelerator_time", "ttft"),
    check=check_prefill,
    example=_with(PrefillInputs, PrefillPlan(tensor=4.0, chunk=4096.0, busy=7.0)),
)
