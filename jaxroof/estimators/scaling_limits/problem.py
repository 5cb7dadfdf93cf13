"""One point of the study of limits as plain numbers, and the outcome of a split."""

from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp

from jaxroof.estimators.scaling_limits import data_movement as costs
from jaxroof.estimators.scaling_limits.data_movement import Degrees, Rates
from jaxroof.estimators.scaling_limits.inputs import Scaling, device_rates, sizes_of
from jaxroof.estimators.scaling_limits.training_scale import Sizes, latency_floor
from jaxroof.formulas.arithmetic import larger
from jaxroof.records import Number


class Problem(NamedTuple):
    """A training run, its limits and the device, without number formats and names."""

    training_flops: Number
    rates: Rates
    width: Number
    coefficient: Number
    longest_run: Number
    latency: Number
    scaling: Scaling


class Outcome(NamedTuple):
    """The outcome of a run under a split."""

    batch_time: Number
    train_time: Number
    devices: Number
    utilisation: Number  # of the sustained rate


def problem_of(inputs: Any, training_flops: Number) -> Problem:
    """Return the problem of a point from its inputs."""
    return Problem(
        training_flops=training_flops,
        rates=device_rates(inputs.pod_size, inputs.rate_width, inputs.system),
        width=inputs.width,
        coefficient=inputs.traffic_coefficient,
        longest_run=inputs.longest_run,
        latency=inputs.step_latency,
        scaling=inputs.scaling,
    )


def sizes(problem: Problem) -> Sizes:
    """Return the sizes of a point's model."""
    return sizes_of(problem.training_flops, problem.scaling)


def phases_sum(problem: Problem, split: Degrees) -> Number:
    """Return the time of a batch without the latency floor."""
    phases = costs.batch_phases(
        sizes(problem),
        split,
        problem.rates,
        problem.width,
        problem.scaling.hidden_factor,
        problem.coefficient,
    )
    return costs.phases_time(phases)


def batch_limit(problem: Problem) -> Number:
    """Return the longest batch time for which the run meets its time limit."""
    found = sizes(problem)
    return problem.longest_run * found.batch / found.tokens


def outcome(problem: Problem, split: Degrees) -> Outcome:
    """Return the outcome of a run under a split, including the latency floor."""
    found = sizes(problem)
    batch_time = larger(phases_sum(problem, split), latency_floor(found.layers, problem.latency))
    train_time = found.tokens / found.batch * batch_time
    devices = split.pipeline * split.data * split.hidden_tensor * split.residual_tensor
    share = costs.utilisation(
        problem.training_flops, train_time, devices, problem.rates.arithmetic, problem.width
    )
    return Outcome(batch_time, train_time, devices, share)


def point_by_point(function: Callable[[Any], Any], asked: Any) -> Any:
    """Evaluate a function of scalars at every point of a tree of numbers that broadcast.

    The result at a point may be an array, whose dimensions come last. Points run one after the
    other, because in parallel they would compete for the cache. The results have no derivatives:
    a caller that differentiates must evaluate them again.
    """
    asked = jax.tree.map(lambda leaf: jnp.asarray(leaf, jnp.float64), asked)
    leaves, structure = jax.tree.flatten(jax.lax.stop_gradient(asked))
    shape = jnp.broadcast_shapes(*(leaf.shape for leaf in leaves))
    columns = [jnp.broadcast_to(leaf, shape).reshape(-1) for leaf in leaves]
    found = jax.lax.map(function, jax.tree.unflatten(structure, columns))
    return jax.tree.map(lambda column: column.reshape(*shape, *column.shape[1:]), found)
