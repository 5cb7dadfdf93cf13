"""What a token of training costs in FLOP, under every convention that people print.

Source: docs/models/parameters_flops_memory.md, section 3.
"""

from collections.abc import Callable, Mapping

from jaxroof.catalog import lookup as named
from jaxroof.catalog.architecture import Architecture
from jaxroof.estimator import Estimator
from jaxroof.estimators.questions import QUESTIONS
from jaxroof.estimators.training.layer import HEAD_SIZES, Operation, attention, score_width
from jaxroof.estimators.training.model_size import last_layer, layers_by_part, size
from jaxroof.estimators.training.recipe import Recipe
from jaxroof.formulas import model_flops as flops
from jaxroof.formulas.arithmetic import where
from jaxroof.formulas.parameters import matrix_parameters
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

    Raises: InputError where the model gives no sequence length.
    """
    products = {part: one.products for part, one in layers_by_part(model, recipe).items()}
    router = products.pop("router")
    layers = sum(products.values())
    head = matrix_parameters(model.vocabulary, model.hidden)
    scores = _scores(model, recipe)
    extra = _prediction(model, recipe)
    model_flops = {
        **_by_parameters(model, recipe),
        "flops_megatron_full": layers + head + scores["full"],
        "flops_megatron_causal": layers + head + scores["halved"],
        "flops_megatron_mtp": layers + head + scores["halved"] + extra,
        "flops_windowed": layers + head + scores["windowed"],
        "flops_exact": layers + head + router + scores["exact"],
    }
    counted = {name: flops.token_flops(value) for name, value in model_flops.items()}
    full = counted["flops_megatron_full"]
    again = {
        "full": flops.full_recompute(layers, scores["full"]),
        "selective": flops.selective_recompute(scores["full"]),
        "flash": flops.flash_recompute(scores["full"]),
    }
    return counted | {f"hardware_flops_{kind}": full + more for kind, more in again.items()}


def _by_parameters(model: Architecture, recipe: Recipe) -> dict[str, Number]:
    """Return the multiply-adds of the conventions that start from the parameters."""
    counts = size(model, recipe)
    active = counts["active_parameters"]
    beside = ("embedding", "head", "positions")
    query, _ = HEAD_SIZES[recipe.attention](model)
    width = flops.score_products(model.heads, query, query)
    return {
        "flops_6n": active,
        "flops_6n_no_embedding": active - sum(counts[f"parameters_{part}"] for part in beside),
        "flops_palm": active + model.layers * width * model.sequence,
    }


def _scores(model: Architecture, recipe: Recipe) -> dict[str, Number]:
    """Return the multiply-adds of scores and values of one token in all layers."""
    width = score_width(model, recipe)
    whole, local = model.layers - model.windowed_layers, model.windowed_layers
    sequence, window, none = model.sequence, model.window, 0.0 * model.window

    def mixed(context: Callable[[Number, Number], Number]) -> Number:
        return width * (whole * context(sequence, none) + local * context(sequence, window))

    return {
        "full": model.layers * width * sequence,
        "halved": model.layers * width * flops.halved_context(sequence, none),
        "windowed": mixed(flops.halved_context),
        "exact": mixed(flops.exact_context),
    }


def _prediction(model: Architecture, recipe: Recipe) -> Number:
    """Return what modules of multi-token prediction add, and norms of latents beside them."""
    modules = model.mtp_layers
    router = matrix_parameters(model.hidden, model.experts)  # this convention leaves it out
    matrices = last_layer(model, recipe).products - router
    latent = attention(model, recipe).get("latent_norms", Operation("norms")).replicated
    one = flops.prediction_products(model.hidden, model.vocabulary, matrices)
    scores = score_width(model, recipe) * flops.halved_context(model.sequence, 0.0 * model.window)
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
