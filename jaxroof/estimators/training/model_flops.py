"""What a token of training costs in FLOP, under every convention that people print.

Source: docs/models/parameters_flops_memory.md, section 3.
"""

from collections.abc import Callable, Mapping

from jaxroof.catalog import lookup as named
from jaxroof.catalog.architecture import Architecture
from jaxroof.estimator import Estimator
from jaxroof.estimators.questions import QUESTIONS
from jaxroof.estimators.training.layer.attention import (
    attention,
    exact_context,
    halved_context,
    head_widths,
    score_width,
)
from jaxroof.estimators.training.layer.operation import products, weights
from jaxroof.estimators.training.layer.sums import Groups, by_part, groups, last_layer
from jaxroof.estimators.training.model_size import size
from jaxroof.estimators.training.planned import TrainingModel, training_model
from jaxroof.estimators.training.recipe import Recipe
from jaxroof.formulas.arithmetic import where
from jaxroof.records import Number, quantity, record


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


def token_flops(model: Architecture, recipe: Recipe) -> dict[str, Number]:
    """Return the FLOP of one token, forward and backward, by the names of ModelFlops.

    F = 6 W: 2 a multiply-add, and backward twice what forward takes. What is computed again is one
    more forward pass: of all layers, of scores and values, or in a flash kernel of scores alone.

    Raises: InputError where the model gives no sequence length.
    Source: docs/models/parameters_flops_memory.md, section 3.
    """
    read = training_model(model, recipe)
    of = groups(read)
    met = {part: amount for part, (_, amount) in by_part(of).items()}
    router = met.pop("router")
    layers = sum(met.values())
    matrices = layers + read.vocabulary * read.hidden
    scores = _scores(read)
    counted = {
        **_by_parameters(read, size(model, recipe)),
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


def _by_parameters(model: TrainingModel, counts: dict[str, Number]) -> dict[str, Number]:
    """Return the multiply-adds of the conventions that start from the parameters."""
    active = counts["active_parameters"]
    beside = ("embedding", "head", "positions")
    query, _ = head_widths(model)
    return {
        "flops_6n": active,
        "flops_6n_no_embedding": active - sum(counts[f"parameters_{part}"] for part in beside),
        "flops_palm": active + model.layers * model.heads * 2.0 * query * model.sequence,
    }


def _scores(model: TrainingModel) -> dict[str, Number]:
    """Return the multiply-adds of scores and values of one token in all layers."""
    width, local, sequence = score_width(model), model.windowed_layers, model.sequence
    none = 0.0 * model.window

    def mixed(context: Callable[[Number, Number], Number]) -> Number:
        whole = (model.layers - local) * context(sequence, none)
        return width * (whole + local * context(sequence, model.window))

    return {
        "full": model.layers * width * sequence,
        "halved": model.layers * width * halved_context(sequence, none),
        "windowed": mixed(halved_context),
        "exact": mixed(exact_context),
    }


def _prediction(model: TrainingModel, of: Groups) -> Number:
    """Return what modules of multi-token prediction add, and norms of latents beside them.

    Of a module: one layer without its router, V h + 2 h^2 + 3 h, and halved scores.

    Source: docs/models/parameters_flops_memory.md, section 3, convention megatron_mtp.
    """
    modules, hidden = model.mtp_layers, model.hidden
    latent = weights(attention(model)["norms of latents"]).replicated
    matrices = last_layer(model, of, products) - hidden * model.experts
    one = matrices + model.vocabulary * hidden + 2.0 * hidden * hidden + 3.0 * hidden
    scores = score_width(model) * halved_context(model.sequence, 0.0 * model.window)
    added = modules * (one + scores) + (model.layers + modules) * latent
    return where(modules > 0.0, added, 0.0 * added)


def step(inputs: FlopInputs, recipe: Recipe) -> ModelFlops:
    """Return the FLOP of training on some tokens."""
    each: Mapping[str, Number] = token_flops(inputs.model, recipe)
    return ModelFlops(**{name: inputs.tokens * value for name, value in each.items()})


model_flops = Estimator(
    name="model_flops",
    step=step,
    inputs=FlopInputs,
    recipe=Recipe(),
    names={"model": named.architecture_with_choices},
    example=lambda: FlopInputs(
        model=named.architecture_with_choices("mixtral-8x7b")[0], tokens=1e6
    ),
    about=QUESTIONS["model_flops"],
)
