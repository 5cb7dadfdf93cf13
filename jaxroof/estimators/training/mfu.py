"""The utilisation that a measured rate of tokens amounts to, under every named convention.

Source: docs/models/parameters_flops_memory.md, section 3.
"""

from jaxroof.catalog import lookup as named
from jaxroof.catalog.architecture import Architecture
from jaxroof.catalog.system import System
from jaxroof.estimator import Estimator
from jaxroof.estimators.questions import QUESTIONS
from jaxroof.estimators.training.model_flops import token_flops
from jaxroof.estimators.training.recipe import Recipe
from jaxroof.records import Number, quantity, record


@record
class RateInputs:
    """A model, a machine at the precision in use, and the tokens that it trains on a second."""

    model: Architecture
    system: System
    token_rate: Number = quantity("token/s", "Tokens a second of one accelerator.")


def _rate(convention: str) -> Number:
    return quantity("FLOP/s", f"Model FLOP a second, {convention}.", better="higher")


def _share(kind: str, convention: str) -> Number:
    return quantity("1", f"{kind}, {convention}.", better="higher")


@record
class Utilisation:
    """FLOP a second of one accelerator and their share of its peak, by convention.

    MFU counts what the model needs; HFU counts what is computed again too.
    """

    mfu_6n: Number = _share("MFU", "6N")
    mfu_6n_no_embedding: Number = _share("MFU", "6N without embedding, head and positions")
    mfu_palm: Number = _share("MFU", "PaLM")
    mfu_megatron_full: Number = _share("MFU", "Megatron-LM with full attention")
    mfu_megatron_causal: Number = _share("MFU", "Megatron-LM with halved attention")
    mfu_megatron_mtp: Number = _share(
        "MFU", "Megatron-LM with halved attention and prediction modules"
    )
    mfu_windowed: Number = _share("MFU", "halved attention within its windows")
    mfu_exact: Number = _share("MFU", "every multiply-add of matrices, router and attention")
    hfu_full: Number = _share("HFU", "Megatron-LM with full attention and all layers again")
    hfu_selective: Number = _share("HFU", "Megatron-LM with full attention, its core again")
    hfu_flash: Number = _share("HFU", "Megatron-LM with full attention, a flash kernel again")
    rate_6n: Number = _rate("6N")
    rate_6n_no_embedding: Number = _rate("6N without embedding, head and positions")
    rate_palm: Number = _rate("PaLM")
    rate_megatron_full: Number = _rate("Megatron-LM with full attention")
    rate_megatron_causal: Number = _rate("Megatron-LM with halved attention")
    rate_megatron_mtp: Number = _rate("Megatron-LM with halved attention and prediction modules")
    rate_windowed: Number = _rate("halved attention within its windows")
    rate_exact: Number = _rate("every multiply-add of matrices, router and attention")


def step(inputs: RateInputs, recipe: Recipe) -> Utilisation:
    """Return rates and utilisation of one accelerator."""
    found = {}
    for name, flops in token_flops(inputs.model, recipe).items():
        convention = name.removeprefix("hardware_").removeprefix("flops_")
        hardware = name.startswith("hardware_")
        share = flops * inputs.token_rate / inputs.system.matrix_flops
        found[f"{'hfu' if hardware else 'mfu'}_{convention}"] = share
        if not hardware:
            found[f"rate_{convention}"] = flops * inputs.token_rate
    return Utilisation(**found)


def example() -> RateInputs:
    """Return Llama 3.1 405B as measured on GB200 in FP8."""
    model, _ = named.architecture_with_choices("llama3.1-405b")
    system = named.system("gb200-nvl72", "fp8")
    return RateInputs(model=model, system=system, token_rate=843.0)


mfu = Estimator(
    name="mfu",
    step=step,
    inputs=RateInputs,
    recipe=Recipe(),
    names={"model": named.architecture_with_choices, "system": named.labelled_system},
    example=example,
    about=QUESTIONS["mfu"],
)
