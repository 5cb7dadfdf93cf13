"""What one operation of an MLP costs on one accelerator: one formula, with each quirk a number.

Source: docs/models/distir_model.md, sections 3 and 8.
"""

import operator
from collections.abc import Callable
from typing import Any, NamedTuple

import jax.numpy as jnp

from jaxroof.catalog.system import network as network_of
from jaxroof.estimators.mlp_pipeline.inputs import Inputs
from jaxroof.estimators.mlp_pipeline.recipe import (
    Choices,
    Elementwise,
    Joins,
    Loss,
    Messages,
    Network,
    Overlap,
    Products,
)
from jaxroof.formulas import network
from jaxroof.formulas.arithmetic import larger
from jaxroof.formulas.network import others
from jaxroof.records import Number


class Links(NamedTuple):
    """Seconds of messages of some bytes."""

    send: Callable[[Number], Number]  # to the next stage
    all_reduce: Callable[[Number, Number, bool], Number]  # of a group, of tensor ranks or replicas


class Prices(NamedTuple):
    """What costs are computed from."""

    matrix_rate: Number  # [FLOP/s]
    vector_rate: Number
    memory_rate: Number  # [B/s]
    launch: Number  # [s]
    element: Number  # [B]
    product_read: Number  # [B] of an element of an operand of a product
    product_written: Number  # of its result
    element_flops: Number  # [FLOP] of one element
    element_read: Number  # [B] of one element of one operand
    element_written: Number  # of the result
    loss_operands: float
    message: Number  # [B] of one element of a send
    join: Number  # [s]
    together: Callable[[Any, Any], Any]  # seconds of arithmetic and of traffic -> seconds
    links: Links


def prices(inputs: Inputs, choices: Choices) -> Prices:
    """Return what costs are computed from, each quirk as the number that it is."""
    system, element = inputs.system, inputs.element
    read, written = PRODUCTS[choices.products](element)
    flops, one_read, one_written = ELEMENTWISE[choices.elementwise](element)
    return Prices(
        matrix_rate=system.matrix_flops * system.matrix_efficiency,
        vector_rate=system.vector_flops * system.matrix_efficiency,
        memory_rate=system.hbm_bandwidth,
        launch=system.launch_latency,
        element=element,
        product_read=read,
        product_written=written,
        element_flops=flops,
        element_read=one_read,
        element_written=one_written,
        loss_operands=OPERANDS[choices.loss],
        message=element * MESSAGES[choices.messages](element),
        join=system.launch_latency * JOINS[choices.joins],
        together=OVERLAP[choices.overlap],
        links=LINKS[choices.network](inputs),
    )


def product(asked: Prices, m: Number, k: Number, n: Number) -> Number:
    """Return the time of [m, k] times [k, n]: launch, arithmetic and traffic.

    t = l + 2 m k n / f  (+ or max)  (s_in (m k + k n) + s_out m n) / b
    """
    traffic = asked.product_read * (m * k + k * n) + asked.product_written * (m * n)
    arithmetic = 2.0 * m * k * n / asked.matrix_rate
    return asked.launch + asked.together(arithmetic, traffic / asked.memory_rate)


def elementwise(asked: Prices, elements: Number, operands: float = 1.0) -> Number:
    """Return the time of an operation on each element of its operands."""
    traffic = (operands * asked.element_read + asked.element_written) * elements
    arithmetic = asked.element_flops * elements / asked.vector_rate
    return asked.launch + asked.together(arithmetic, traffic / asked.memory_rate)


def send(asked: Prices, elements: Number) -> Number:
    """Return the time of a message to the next stage [s]."""
    return asked.links.send(asked.message * elements)


def all_reduce(asked: Prices, elements: Number, group: Number, tensor: bool) -> Number:
    """Return the time of a sum over ranks of a layer (``tensor``) or over replicas [s]."""
    return asked.links.all_reduce(asked.element * elements, group, tensor)


def gather(asked: Prices, elements: Number, group: Number) -> Number:
    """Return the time to gather every replica's piece of ``elements``, charged as a sum [s].

    Source: docs/models/distir_model.md, sections 8 and 9.
    """
    return asked.links.all_reduce(asked.message * elements, group, False)


PUBLISHED = 64.0  # 8e9 B a Gbit where there are 1.25e8 (quirk 1)


def _flat(inputs: Inputs, times: float = 1.0) -> Links:
    """Return a network in which every pair has one bandwidth, and no message a latency."""
    rate = inputs.system.network_bandwidth * times
    return Links(
        lambda message: message / rate,
        lambda message, group, tensor: 2.0 * message * others(group) / rate,
    )


def _calibrated(inputs: Inputs) -> Links:
    """Return a flat network whose sums follow linear laws c0 V + c1 g + c2, one a group size."""

    def all_reduce(message: Number, group: Number, tensor: bool) -> Number:
        law = inputs.tensor_sums if tensor else inputs.data_sums
        time = law.per_byte * message + law.per_rank * group + law.constant
        return jnp.where(group > 1.0, time, 0.0)

    return _flat(inputs)._replace(all_reduce=all_reduce)


def _tiered(inputs: Inputs) -> Links:
    """Return fast domains in a slow network: ranks of a layer innermost, then replicas, stages.

    A message between stages goes fast where all accelerators share one domain; an all-reduce is a
    reduce-scatter, then an all-gather.
    """
    plan, domain, links = inputs.plan, inputs.system.fast_domain, network_of(inputs.system)
    assert plan is not None
    ranks = _shared(plan.tensor, domain)
    replicas = jnp.where(ranks >= plan.tensor, _shared(plan.data, domain / ranks), 1.0)
    near = jnp.where(plan.data * plan.tensor * plan.pipeline <= domain, 2.0, 1.0)
    return Links(
        lambda message: network.study_send(message, 2.0, near, links),
        lambda message, group, tensor: (
            2.0 * network.study_gather(message, group, ranks if tensor else replicas, links)
        ),
    )


def _shared(group: Number, places: Number) -> Number:
    """Return the greatest common divisor: members of a group that can lie together."""
    whole = (jnp.asarray(value).astype(jnp.int64) for value in (group, places))
    return jnp.gcd(*whole).astype(jnp.float64)


LINKS: dict[Network, Callable[[Inputs], Links]] = {
    Network.EIGHTFOLD: lambda inputs: _flat(inputs, PUBLISHED),
    Network.FLAT: _flat,
    Network.CALIBRATED: _calibrated,
    Network.TIERED: _tiered,
}
PRODUCTS: dict[Products, Callable[[Number], tuple[Any, Any]]] = {
    Products.HALVES: lambda element: (2.0, 0.0),
    Products.READ: lambda element: (element, 0.0),
    Products.WRITTEN: lambda element: (element, element),
}
ELEMENTWISE: dict[Elementwise, Callable[[Number], tuple[Any, Any, Any]]] = {
    Elementwise.BYTES: lambda element: (element, 0.0, 0.0),
    Elementwise.READ: lambda element: (1.0, element, 0.0),
    Elementwise.WRITTEN: lambda element: (1.0, element, element),
}
OPERANDS = {Loss.ONE: 1.0, Loss.TWO: 2.0}
MESSAGES: dict[Messages, Callable[[Number], Any]] = {
    Messages.SQUARED: lambda element: element,
    Messages.ONCE: lambda element: 1.0,
}
JOINS = {Joins.FREE: 0.0, Joins.LAUNCHED: 1.0}
OVERLAP: dict[Overlap, Callable[[Any, Any], Any]] = {
    Overlap.ADDED: operator.add,
    Overlap.HIDDEN: larger,
}
