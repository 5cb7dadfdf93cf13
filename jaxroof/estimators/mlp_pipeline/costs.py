"""What one operation of an MLP costs on one accelerator: one formula, with each quirk a number.

Source: docs/models/distir_model.md, sections 3 and 8.
"""

from collections.abc import Callable
from typing import Any, NamedTuple

import jax.numpy as jnp

from jaxroof.catalog.system import network as network_of
from jaxroof.estimators.mlp_pipeline.inputs import Inputs, Law
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
from jaxroof.records import Number


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
    links: Any  # what `send` and `all_reduce` read


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

    Units: m, k, n [1] -> [s].
    Source: docs/models/distir_model.md, sections 3 and 8.
    """
    traffic = asked.product_read * (m * k + k * n) + asked.product_written * (m * n)
    arithmetic = 2.0 * m * k * n / asked.matrix_rate
    return asked.launch + asked.together(arithmetic, traffic / asked.memory_rate)


def elementwise(asked: Prices, elements: Number, operands: float = 1.0) -> Number:
    """Return the time of an operation on each element of its operands.

    Units: elements, operands [1] -> [s].
    Source: docs/models/distir_model.md, sections 3 and 8.
    """
    traffic = (operands * asked.element_read + asked.element_written) * elements
    arithmetic = asked.element_flops * elements / asked.vector_rate
    return asked.launch + asked.together(arithmetic, traffic / asked.memory_rate)


class Flat(NamedTuple):
    """A network in which every pair has one bandwidth, and no message a latency."""

    bandwidth: Number

    def send(self, message: Number) -> Number:
        """Return the time of a message [B] to the next stage [s]."""
        return message / self.bandwidth

    def all_reduce(self, message: Number, group: Number, tensor: bool) -> Number:
        """Return the time of a ring all-reduce, 2 V (g - 1) / g / b."""
        return 2.0 * message * (group - 1.0) / group / self.bandwidth


class Calibrated(NamedTuple):
    """A flat network whose sums follow linear laws, one for each group size in use."""

    bandwidth: Number
    tensor: Law
    data: Law

    def send(self, message: Number) -> Number:
        """Return the time of a message [B] to the next stage [s]."""
        return message / self.bandwidth

    def all_reduce(self, message: Number, group: Number, tensor: bool) -> Number:
        """Return the time of an all-reduce, c0 V + c1 g + c2; nobody to sum with costs nothing.

        Source: docs/models/distir_model.md, section 8.
        """
        law = self.tensor if tensor else self.data
        time = law.per_byte * message + law.per_rank * group + law.constant
        return jnp.where(group > 1.0, time, 0.0)


class Tiered(NamedTuple):
    """Fast domains in a slow network: ranks of a layer lie innermost, then replicas, then stages.

    A message between stages goes fast where all accelerators share one domain.
    """

    tensor: Number  # ranks of a layer in one domain
    data: Number  # replicas in one domain
    near: Number  # 2 where stages share a domain, else 1
    links: network.Network

    def send(self, message: Number) -> Number:
        """Return the time of a message [B] to the next stage [s]."""
        return network.study_send(message, 2.0, self.near, self.links)

    def all_reduce(self, message: Number, group: Number, tensor: bool) -> Number:
        """Return the time of an all-reduce: a reduce-scatter, then an all-gather."""
        fast = self.tensor if tensor else self.data
        return 2.0 * network.study_gather(message, group, fast, self.links)


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


def _eightfold(inputs: Inputs) -> Flat:
    return Flat(inputs.system.network_bandwidth * PUBLISHED)


def _flat(inputs: Inputs) -> Flat:
    return Flat(inputs.system.network_bandwidth * 1.0)


def _calibrated(inputs: Inputs) -> Calibrated:
    rate = inputs.system.network_bandwidth * 1.0
    return Calibrated(rate, inputs.tensor_sums, inputs.data_sums)


def _tiered(inputs: Inputs) -> Tiered:
    """Return the links of fast domains, and how many ranks of each group share one."""
    plan, domain = inputs.plan, inputs.system.fast_domain
    assert plan is not None
    tensor = _shared(plan.tensor, domain)
    data = jnp.where(tensor >= plan.tensor, _shared(plan.data, domain / tensor), 1.0)
    near = plan.data * plan.tensor * plan.pipeline <= domain
    return Tiered(tensor, data, jnp.where(near, 2.0, 1.0), network_of(inputs.system))


def _shared(group: Number, places: Number) -> Number:
    """Return the greatest common divisor: members of a group that can lie together."""
    whole = (jnp.asarray(value).astype(jnp.int64) for value in (group, places))
    return jnp.gcd(*whole).astype(jnp.float64)


def _added(arithmetic: Number, traffic: Number) -> Number:
    return arithmetic + traffic


LINKS: dict[Network, Callable[[Inputs], Any]] = {
    Network.EIGHTFOLD: _eightfold,
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
OVERLAP: dict[Overlap, Callable[[Any, Any], Any]] = {Overlap.ADDED: _added, Overlap.HIDDEN: larger}
