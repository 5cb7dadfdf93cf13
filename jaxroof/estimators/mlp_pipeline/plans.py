"""Which plans of an MLP's step are refused, every way to split it, and the program each needs.

Every rule takes the inputs and plan fields by name and uses only %, //, comparisons, & and |.
Source: docs/models/distir_model.md, sections 1 and 10 (numbers of quirks are its own).
"""

from collections.abc import Mapping
from typing import Any

import numpy as np

from jaxroof.errors import InputError, refusal
from jaxroof.estimator import Candidates, reads
from jaxroof.estimators.legality import (
    POWER_OF_TWO,
    Rule,
    data_divides_batch,
    divisors,
    pipeline_divides_layers,
)
from jaxroof.estimators.mlp_pipeline.inputs import Inputs
from jaxroof.estimators.mlp_pipeline.layers import widths
from jaxroof.estimators.mlp_pipeline.recipe import Choices, Recipe, Rules

LARGEST_GROUP = 8192
WEIGHTS = (6, 12, 24, 48, 96)  # of a device, besides powers of two, that have an update (B4)


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


ALWAYS = (
    Rule("stages_divide_layers", pipeline_divides_layers, "stages that divide the {layers} layers"),
    Rule("data_divides_batch", data_divides_batch, "replicas that divide the batch of {batch}"),
    Rule(
        "microbatches_divide_batch",
        lambda inputs, *, data, microbatches: inputs.global_batch // data % microbatches == 0,
        "microbatches that divide a replica's share of the batch of {batch}",
    ),
    Rule(
        "tensor_divides_width",
        lambda inputs, *, tensor: widths(inputs.model)[1] % tensor == 0,
        "ranks that divide the width of {width}",
    ),
    Rule(
        "tensor_needs_pairs",
        lambda inputs, *, tensor: (tensor == 1) | (inputs.model.layers % 2 == 0),
        "one rank, or an even number of layers, not {layers}",
    ),
)
RULES: dict[Rules, tuple[Rule, ...]] = {
    Rules.FIRST: (
        *ALWAYS,
        Rule(
            "layers_enough",
            lambda inputs, *, pipeline: (inputs.model.layers >= 2) & (pipeline > 0),
            "two layers or more, not {layers}",
        ),
        Rule(
            "microbatches_suit_stages",
            lambda inputs, *, pipeline, microbatches: (
                ((pipeline == 1) & (microbatches == 1)) | ((pipeline > 1) & (microbatches > 1))
            ),
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
        Rule(
            "layers_enough",
            lambda inputs, *, pipeline: (inputs.model.layers >= 3) & (pipeline > 0),
            "three layers or more, not {layers}",
        ),
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


# ---- Every way to split a step over a cluster (section 1) ----------------------------------------

Columns = Mapping[str, np.ndarray]
FIELDS = ("data", "tensor", "pipeline", "microbatches")


def tried(inputs: Inputs, recipe: Recipe) -> Columns:
    """Return every plan that a study of a cluster tries, legal or not, a column a field.

    Degrees multiply to the accelerators; microbatches are those of the profile. Replicas come
    first, then ranks of a layer, stages and microbatches.
    Raises: InputError where the number of accelerators is missing.
    """
    if inputs.gpus is None:
        raise InputError("gpus: not given; expected the number of accelerators to split over")
    gpus, batch = int(inputs.gpus), int(inputs.global_batch)
    counts = MICROBATCHES[recipe.chosen().rules]
    degrees = divisors(gpus).tolist()
    rows = [
        (data, tensor, gpus // (data * tensor), many)
        for data in degrees
        for tensor in degrees
        if gpus % (data * tensor) == 0
        for many in counts(batch, data, gpus // (data * tensor))
    ]
    return dict(zip(FIELDS, np.array(rows, np.int64).reshape(-1, len(FIELDS)).T, strict=True))


def plans(inputs: Inputs, recipe: Recipe) -> Candidates:
    """Return every legal plan of ``inputs.gpus`` accelerators, and what each rule refused."""
    rows = tried(inputs, recipe)
    refused: dict[str, int] = {}
    for rule in RULES[recipe.chosen().rules]:
        allowed = np.broadcast_to(rule.allows(inputs, rows), rows["data"].shape)
        refused[rule.name] = int(np.sum(~allowed))
        rows = {field: column[allowed] for field, column in rows.items()}
    return Candidates(rows, refused)


def _first(batch: int, data: int, stages: int) -> list[int]:
    """Return powers of two up to half the square root of a replica's batch."""
    if stages == 1:
        return [1]
    most = int(np.floor(np.log2(max(batch / data, 1.0)) / 2.0)) - 1
    return [2**k for k in range(1, most + 1)]


def _last(batch: int, data: int, stages: int) -> list[int]:
    """Return powers of two up to 128 that leave each microbatch a sample."""
    if data > batch:
        return []
    return [2**k for k in range(1, 8) if batch // data // 2**k >= 1] if stages > 1 else [1]


def _any(batch: int, data: int, stages: int) -> list[int]:
    """Return what divides a replica's batch; with one stage it saves memory alone."""
    if batch % data:
        return [1]
    return [int(m) for m in divisors(batch // data) if m <= MOST]


MOST = 512  # microbatches of one replica that are tried: the bubble is gone long before
MICROBATCHES = {Rules.FIRST: _first, Rules.LAST: _last, Rules.ANY: _any}


def sizes(inputs: Inputs) -> np.ndarray:
    """Return the stages and the timesteps of every point, [points, 2]."""
    plan: Any = inputs.plan
    stages, many = np.broadcast_arrays(
        np.asarray(plan.pipeline, float), np.asarray(plan.microbatches, float)
    )
    return np.stack([stages.ravel(), 2.0 * (many + stages - 1.0).ravel()], axis=-1)
