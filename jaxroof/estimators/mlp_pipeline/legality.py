"""Which plans of an MLP's step are refused: each rule once, for the enumerator and the verdicts.

Every rule takes the inputs and plan fields by name and uses only %, //, comparisons, & and |.
Source: docs/models/distir_model.md, section 10 (numbers of quirks are its own).
"""

from typing import Any

from jaxroof.errors import refusal
from jaxroof.estimator import reads
from jaxroof.estimators.legality import (
    POWER_OF_TWO,
    Rule,
    data_divides_batch,
    pipeline_divides_layers,
)
from jaxroof.estimators.mlp_pipeline.layers import widths
from jaxroof.estimators.mlp_pipeline.recipe import Choices, Rules

LARGEST_GROUP = 8192
WEIGHTS = (6, 12, 24, 48, 96)  # of a device, besides powers of two, that have an update (B4)


def microbatches_divide_batch(inputs: Any, *, data: Any, microbatches: Any) -> Any:
    """Return whether every microbatch gets whole samples."""
    return inputs.global_batch // data % microbatches == 0


def tensor_divides_width(inputs: Any, *, tensor: Any) -> Any:
    """Return whether every rank gets whole columns."""
    return widths(inputs.model)[1] % tensor == 0


def tensor_needs_pairs(inputs: Any, *, tensor: Any) -> Any:
    """Return whether the last layer's output is whole on every rank (8)."""
    return (tensor == 1) | (inputs.model.layers % 2 == 0)


def microbatches_suit_stages(inputs: Any, *, pipeline: Any, microbatches: Any) -> Any:
    """Return whether there are several microbatches with several stages alone (5)."""
    return ((pipeline == 1) & (microbatches == 1)) | ((pipeline > 1) & (microbatches > 1))


def groups_have_costs(inputs: Any, *, data: Any, tensor: Any) -> Any:
    """Return whether the group that sums is a power of two of at most 8192 (6)."""
    ranks = (POWER_OF_TWO % tensor == 0) & (tensor <= LARGEST_GROUP)
    replicas = (POWER_OF_TWO % data == 0) & (data <= LARGEST_GROUP)
    return ((tensor > 1) & ranks) | ((tensor == 1) & replicas)


def weights_have_updates(inputs: Any, *, pipeline: Any) -> Any:
    """Return whether there is an update for as many weights as a device holds (B4)."""
    count = (inputs.model.layers - 1) // pipeline + 1
    known = POWER_OF_TWO % count == 0
    for some in WEIGHTS:
        known = known | (count == some)
    return known


def two_layers(inputs: Any, *, pipeline: Any) -> Any:
    """Return whether the model has two layers (8)."""
    return (inputs.model.layers >= 2) & (pipeline > 0)


def three_layers(inputs: Any, *, pipeline: Any) -> Any:
    """Return whether the model has three layers (section 8)."""
    return (inputs.model.layers >= 3) & (pipeline > 0)


ALWAYS = (
    Rule("stages_divide_layers", pipeline_divides_layers, "stages that divide the {layers} layers"),
    Rule("data_divides_batch", data_divides_batch, "replicas that divide the batch of {batch}"),
    Rule(
        "microbatches_divide_batch",
        microbatches_divide_batch,
        "microbatches that divide a replica's share of the batch of {batch}",
    ),
    Rule("tensor_divides_width", tensor_divides_width, "ranks that divide the width of {width}"),
    Rule(
        "tensor_needs_pairs",
        tensor_needs_pairs,
        "one rank, or an even number of layers, not {layers}",
    ),
)
RULES: dict[Rules, tuple[Rule, ...]] = {
    Rules.FIRST: (
        *ALWAYS,
        Rule("layers_enough", two_layers, "two layers or more, not {layers}"),
        Rule(
            "microbatches_suit_stages",
            microbatches_suit_stages,
            "several microbatches with several stages, one with one (profile distir-a)",
        ),
        Rule(
            "groups_have_costs",
            groups_have_costs,
            "a power of two of ranks that sum (profile distir-a)",
        ),
    ),
    Rules.LAST: (
        *ALWAYS,
        Rule("layers_enough", three_layers, "three layers or more, not {layers}"),
        Rule(
            "weights_have_updates",
            weights_have_updates,
            "a power of two, 6, 12, 24, 48 or 96 layers a stage (profile distir-b)",
        ),
    ),
    Rules.ANY: ALWAYS,
}
VERDICTS = tuple(dict.fromkeys(rule.name for rules in RULES.values() for rule in rules))


def legal(inputs: Any, choices: Choices) -> None:
    """Check that there is a plan, and that every rule allows it.

    Raises: InputError that names the plan's fields, their values and what would be right.
    """
    if inputs.plan is None:
        expected = "plan.data, plan.tensor, plan.pipeline and plan.microbatches"
        raise refusal("plan", f"missing; expected {expected}")
    sizes = {
        "layers": f"{float(inputs.model.layers):g}",
        "batch": f"{float(inputs.global_batch):g}",
        "width": f"{float(widths(inputs.model)[1]):g}",
    }
    for rule in RULES[choices.rules]:
        fields = {name: getattr(inputs.plan, name) for name in reads(rule.holds)}
        if not bool(rule.holds(inputs, **fields)):
            said = ", ".join(f"{name}={float(value):g}" for name, value in fields.items())
            raise refusal("plan", f"{said}: not legal; expected {rule.words.format(**sizes)}")
