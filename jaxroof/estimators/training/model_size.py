"""How many parameters a model has, what a token of training costs in FLOP, and so what its MFU is.

Source: docs/models/parameters_flops_memory.md, sections 2 and 3.
"""

import dataclasses

from jaxroof.catalog import lookup as named
from jaxroof.catalog.architecture import Architecture
from jaxroof.catalog.system import System
from jaxroof.estimator import Estimator
from jaxroof.estimators.questions import QUESTIONS
from jaxroof.estimators.training.inputs import (
    StageInputs,
    TrainingModel,
    step_model,
    training_model,
)
from jaxroof.estimators.training.layer.attention import latent_norms
from jaxroof.estimators.training.layer.operation import ADAPTERS, known, products, times, weights
from jaxroof.estimators.training.layer.recurrent import token_flops as recurrent_flops
from jaxroof.estimators.training.layer.scores import (
    full_shape,
    index_scores,
    score_width,
    token_scores,
    window_shape,
)
from jaxroof.estimators.training.layer.sums import (
    Groups,
    Kind,
    by_part,
    groups,
    last_layer,
    norm_weights,
    total_weights,
)
from jaxroof.estimators.training.recipe import Recipe, TrainingRecipe
from jaxroof.formulas.arithmetic import larger, where
from jaxroof.records import Number, quantity, record

# ---- Parameters ---------------------------------------------------------------------------------


@record
class SizeInputs:
    """A model, and how wide its parameters are."""

    model: Architecture
    weight_width: Number = quantity("B", "Bytes of one parameter.", default=2.0)


def _part(doc: str, words: str) -> Number:
    return quantity("1", doc, part_of="parameters", words=words)


@record
class ModelSize:
    """Parameters of a model."""

    parameters: Number = quantity("1", "Parameters of the model.", headline=True)
    active_parameters: Number = quantity(
        "1", "Parameters that one token meets, embedding and head included.", headline=True
    )
    parameters_attention: Number = _part("Matrices of attention.", "attention")
    parameters_indexer: Number = _part("Indexers of sparse attention.", "indexers")
    parameters_recurrent: Number = _part("Recurrent layers.", "recurrent layers")
    parameters_mlp: Number = _part("Matrices of dense MLPs.", "dense MLPs")
    parameters_experts: Number = _part("Matrices of routed experts.", "routed experts")
    parameters_shared_experts: Number = _part("Matrices of shared experts.", "shared experts")
    parameters_router: Number = _part("Routers.", "routers")
    parameters_norms: Number = _part("Normalisations.", "normalisations")
    parameters_biases: Number = _part("Biases.", "biases")
    parameters_embedding: Number = _part("Embedding of the vocabulary.", "embedding")
    parameters_head: Number = _part("Head, unless it is the embedding.", "head")
    parameters_positions: Number = _part("Learned embedding of positions.", "positions")
    parameters_class_head: Number = _part("Head of a model of pictures.", "class head")
    parameters_extra: Number = _part("Parameters given beside all these.", "extra")
    parameters_mtp: Number = quantity(
        "1", "Modules of multi-token prediction, which are not in the sum."
    )
    weights: Number = quantity("B", "Bytes of all parameters.")


def size(architecture: Architecture, recipe: Recipe) -> dict[str, Number]:
    """Return the parameters of a model, by the names of a ModelSize.

    active = total - (L - L_d) (E - k) of an expert; the two embedding matrices count, as do shared
    experts and the router. A module of multi-token prediction, which the total leaves out, is one
    more layer + 2 h^2 + three norms: embedding and head are those of the main model.
    """
    model = training_model(architecture, recipe)
    norm, table, of = norm_weights(model), model.vocabulary * model.hidden, groups(model)
    parts: dict[str, Number] = {"parameters_indexer": 0.0, "parameters_recurrent": 0.0}
    parts |= {f"parameters_{part}": held for part, (held, _) in by_part(of).items()}
    parts["parameters_norms"] = parts["parameters_norms"] + norm
    parts |= {
        "parameters_embedding": table,
        "parameters_head": (1.0 - model.tied) * table,
        "parameters_positions": model.positions * model.hidden,
        "parameters_class_head": model.classes * (model.hidden + 1.0),
        "parameters_extra": model.extra_parameters,
    }
    total = sum(parts.values())
    routed = next(group for group in of if group.kind is Kind.ROUTED)
    expert = total_weights(routed.operations.values()).routed / larger(model.experts, 1.0)
    unused = routed.layers * (model.experts - model.active_experts) * expert
    module = last_layer(model, of, lambda one: weights(one).all)
    joins = 2.0 * model.hidden * model.hidden
    return {
        "parameters": total,
        "active_parameters": total - unused,
        **parts,
        "parameters_mtp": model.mtp_layers * (module + joins + 3.0 * norm),
    }


def size_step(inputs: SizeInputs, recipe: Recipe) -> ModelSize:
    """Return the parameters of a model."""
    counts = size(inputs.model, recipe)
    return ModelSize(**counts, weights=counts["parameters"] * inputs.weight_width)


model_size = Estimator(
    name="model_size",
    step=size_step,
    inputs=SizeInputs,
    recipe=Recipe(),
    names={"model": named.architecture_with_choices},
    example=lambda: SizeInputs(model=named.architecture_with_choices("mixtral-8x7b")[0]),
    about=QUESTIONS["model_size"],
)


# ---- FLOP ---------------------------------------------------------------------------------------


@record
class FlopInputs:
    """A model, and how many tokens to count: one, those of a step, or of a whole training."""

    model: Architecture
    tokens: Number = quantity("token", "Tokens that are trained on.", default=1.0)


def _flops(doc: str) -> Number:
    return quantity("FLOP", doc)


@record
class ModelFlops:
    """FLOP of forward and backward on the tokens, by convention; hardware FLOP apart."""

    flops_6n: Number = _flops("6 a parameter that a token meets; no scores.")
    flops_6n_no_embedding: Number = _flops("The same without embedding, head and positions.")
    flops_palm: Number = _flops("6 a parameter and all scores: PaLM, llm-foundry.")
    flops_megatron_full: Number = _flops("Matrices and all scores: Megatron-LM until core 0.8.")
    flops_megatron_causal: Number = _flops("Matrices and half the scores: Megatron-LM today.")
    flops_megatron_mtp: Number = _flops("The same with modules of multi-token prediction.")
    flops_windowed: Number = _flops("The same as Megatron-LM today, with windows of attention.")
    flops_exact: Number = _flops("Matrices, router, and scores that no mask or window hides.")
    hardware_flops_full: Number = _flops(
        "Hardware FLOP: megatron_full, and all layers computed again."
    )
    hardware_flops_selective: Number = _flops(
        "Hardware FLOP: megatron_full, and the core of attention computed again."
    )
    hardware_flops_flash: Number = _flops(
        "Hardware FLOP: megatron_full, and what a flash kernel computes again."
    )


ENDS = ("embedding", "head", "positions")


def token_flops(model: Architecture, recipe: Recipe) -> dict[str, Number]:
    """Return the FLOP of one token, forward and backward, by the names of ModelFlops.

    F = 6 W: 2 a multiply-add, and backward twice what forward takes. What is computed again is one
    more forward pass: of all layers, of scores and values, or in a flash kernel of scores alone.

    Raises: InputError where the model gives no sequence length.
    """
    read = training_model(model, recipe)
    of = groups(read)
    met = {part: amount for part, (_, amount) in by_part(of).items()}
    router = met.pop("router")
    layers = sum(met.values())
    matrices = layers + read.vocabulary * read.hidden
    scores, counts = _scores(read), size(model, recipe)
    active = counts["active_parameters"]
    counted = {
        "flops_6n": active,
        "flops_6n_no_embedding": active - sum(counts[f"parameters_{part}"] for part in ENDS),
        "flops_palm": active + scores["palm"],
        "flops_megatron_full": matrices + scores["full"],
        "flops_megatron_causal": matrices + scores["halved"],
        "flops_megatron_mtp": matrices + scores["halved"] + _prediction(read, of),
        "flops_windowed": matrices + scores["windowed"],
        "flops_exact": matrices + router + scores["exact"],
    }
    found = {name: 6.0 * value for name, value in counted.items()}
    full, core = found["flops_megatron_full"], scores["full"]
    return found | {
        "hardware_flops_full": full + 2.0 * (layers + core),
        "hardware_flops_selective": full + 2.0 * core,
        "hardware_flops_flash": full + core,
    }


def step_flops(inputs: StageInputs, recipe: TrainingRecipe) -> Number:
    """Return the FLOP of one token that MFU counts: ``flops_windowed``, 6 a multiply-add.

    Where matrices are frozen, 4 of theirs and of the head's, forward and gradients of inputs, and 6
    of adapters' and of scores.
    """
    counted = token_flops(inputs.model, recipe)["flops_windowed"]
    model = step_model(inputs, recipe)
    if known(model.trained, 1.0):
        return counted
    met = {part: amount for part, (_, amount) in by_part(groups(model)).items()}
    adapters = met.pop(ADAPTERS, 0.0)
    frozen = sum(met.values()) - met["router"] + model.vocabulary * model.hidden
    return counted - 2.0 * (1.0 - model.trained) * frozen + 6.0 * adapters


def _scores(model: TrainingModel) -> dict[str, Number]:
    """Return the multiply-adds of scores and values of one token in all layers.

    The exact ones have those of indexers, and of recurrent layers what does not multiply by
    matrices. PaLM has all scores, counted by queries and keys alone.

    Source: docs/models/layers_2026.md, section 3.
    """
    full, local = model.full_layers, model.windowed_layers
    far, near = full_shape(model), window_shape(model)
    square = full * score_width(far) + local * score_width(near)
    palm = full * far.heads * far.query + local * near.heads * near.query
    recurrent = model.mamba_layers + model.delta_layers + model.kda_layers
    more = index_scores(model) + times(recurrent, 0.5 * recurrent_flops(model))
    return {
        "palm": 2.0 * palm * model.sequence,
        "full": square * model.sequence,
        "halved": square * model.sequence / 2.0,
        "windowed": token_scores(model, 0.0),
        "exact": token_scores(model, 1.0) + more,
    }


def _prediction(model: TrainingModel, of: Groups) -> Number:
    """Return what modules of multi-token prediction add, and norms of latents beside them.

    Of a module: one layer without its router, V h + 2 h^2 + 3 h, and halved scores.
    """
    modules, hidden = model.mtp_layers, model.hidden
    matrices = last_layer(model, of, products) - hidden * model.experts
    one = matrices + model.vocabulary * hidden + 2.0 * hidden * hidden + 3.0 * hidden
    scores = score_width(full_shape(model)) * model.sequence / 2.0
    added = modules * (one + scores) + (model.full_layers + modules) * latent_norms(model)
    return where(modules > 0.0, added, 0.0 * added)


def flops_step(inputs: FlopInputs, recipe: Recipe) -> ModelFlops:
    """Return the FLOP of training on some tokens."""
    each = token_flops(inputs.model, recipe)
    return ModelFlops(**{name: inputs.tokens * value for name, value in each.items()})


model_flops = dataclasses.replace(
    model_size,
    name="model_flops",
    step=flops_step,
    inputs=FlopInputs,
    example=lambda: FlopInputs(
        model=named.architecture_with_choices("mixtral-8x7b")[0], tokens=1e6
    ),
    about=QUESTIONS["model_flops"],
)


# ---- Utilisation --------------------------------------------------------------------------------


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


def mfu_step(inputs: RateInputs, recipe: Recipe) -> Utilisation:
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


def mfu_example() -> RateInputs:
    """Return Llama 3.1 405B as measured on GB200 in FP8."""
    model, _ = named.architecture_with_choices("llama3.1-405b")
    system = named.system("gb200-nvl72", "fp8")
    return RateInputs(model=model, system=system, token_rate=843.0)


mfu = dataclasses.replace(
    model_size,
    name="mfu",
    step=mfu_step,
    inputs=RateInputs,
    names={**model_size.names, "system": named.labelled_system},
    example=mfu_example,
    about=QUESTIONS["mfu"],
)
