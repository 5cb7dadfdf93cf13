"""Every way to split an MLP's step over a cluster, and how large a program each needs.

Source: docs/models/distir_model.md, section 1.
"""

from collections.abc import Mapping
from typing import Any

import numpy as np

from jaxroof.errors import InputError
from jaxroof.estimator import Candidates
from jaxroof.estimators.enumeration import divisors
from jaxroof.estimators.mlp_pipeline.inputs import Inputs
from jaxroof.estimators.mlp_pipeline.legality import RULES
from jaxroof.estimators.mlp_pipeline.recipe import Recipe, Rules

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
