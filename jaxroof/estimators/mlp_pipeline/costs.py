"""What one operation of an MLP costs on one accelerator, and the visits of every stage.

An operation has one formula, with each quirk a number; a visit is a sum over the layers of a stage.
Source: docs/models/distir_model.md, sections 3, 6 (profile A), 8 (profile B) and 9 (cold start).
"""

import operator
from collections.abc import Callable
from typing import Any, NamedTuple

import jax.numpy as jnp

from jaxroof.catalog.system import network as network_of
from jaxroof.estimators.mlp_pipeline.inputs import Inputs, Plan
from jaxroof.estimators.mlp_pipeline.layers import Layer, Layers, boundary, highest, total, widths
from jaxroof.estimators.mlp_pipeline.recipe import (
    Choices,
    Elementwise,
    Gathers,
    Gradients,
    InputGradient,
    Joins,
    Loss,
    Messages,
    Network,
    Optimizer,
    Overlap,
    Products,
    Sync,
)
from jaxroof.formulas import network
from jaxroof.formulas.arithmetic import larger
from jaxroof.formulas.network import others
from jaxroof.formulas.schedule import exposed_sync
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


class Stages(NamedTuple):
    """Seconds of one rank of every stage, [stages, ..] each."""

    forward: Any  # a visit, its sums over ranks and the loss included
    backward: Any
    again: Any  # adding a later microbatch's weight gradients to those before
    joined_forward: Any  # joining a later microbatch's loss ...
    joined_backward: Any  # ... and input gradient to those before
    loss: Any  # the part of a forward visit that is the loss and its gradient
    tensor: Any  # the sums over ranks, forward and backward
    send: Any  # a message to the next stage (0 from the last)
    sync: Any  # the sums over replicas
    exposed: Any  # the part of them that no computation hides
    gathers: Any
    optimizer: Any


def stages(asked: Prices, choices: Choices, plan: Plan, held: Layers) -> Stages:
    """Return what the visits of every stage cost."""
    batch = held.batch

    def forward(layer: Layer) -> Any:
        return layer_forward(asked, plan, held, layer)

    def sums(layer: Layer, needed: float = 1.0) -> Any:
        onward, back = layer_sums(asked, plan, held, layer)
        return onward + needed * back

    def backward(layer: Layer, needed: float = 1.0) -> Any:
        times = elementwise(asked, batch * layer.columns, 2.0)
        times = times + needed * product(asked, batch, layer.columns, layer.rows)
        times = times + product(asked, layer.rows, batch, layer.columns)
        return times + needed * layer_sums(asked, plan, held, layer)[1]

    needed = INPUT_GRADIENT[choices.input_gradient]
    spared = held.first.count * (backward(held.first) - backward(held.first, needed))
    spared_sums = held.first.count * (sums(held.first) - sums(held.first, needed))
    loss = 2.0 * elementwise(asked, batch * boundary(held), asked.loss_operands)
    loss = jnp.where(held.ends, loss, 0.0)
    backwards = total(held, backward) - spared
    sync, exposed = _sync(asked, choices, plan, held, backwards)
    return Stages(
        forward=total(held, forward) + loss,
        backward=backwards,
        again=total(held, lambda layer: _update(asked, layer)),
        joined_forward=jnp.where(held.ends, asked.join, 0.0),
        joined_backward=jnp.where(held.begins, asked.join * needed, 0.0),
        loss=loss,
        tensor=total(held, sums) - spared_sums,
        send=jnp.where(
            held.there & jnp.logical_not(held.ends), send(asked, batch * boundary(held)), 0.0
        ),
        sync=sync,
        exposed=exposed,
        gathers=GATHERS[choices.gathers](asked, plan, held),
        optimizer=jnp.where(held.there, OPTIMIZER[choices.optimizer](asked, held), 0.0),
    )


def layer_forward(asked: Prices, plan: Plan, held: Layers, layer: Layer) -> Any:
    """Return the time of one layer's product, its sum over ranks and its ReLU."""
    times = product(asked, held.batch, layer.rows, layer.columns)
    times = times + elementwise(asked, held.batch * layer.columns)
    return times + layer_sums(asked, plan, held, layer)[0]


def layer_sums(asked: Prices, plan: Plan, held: Layers, layer: Layer) -> tuple[Any, Any]:
    """Return the time of a layer's sums over ranks, forward of odd layers and backward of even."""
    onward, back = (
        all_reduce(asked, held.batch * width, plan.tensor, True)
        for width in (layer.columns, layer.rows)
    )
    return jnp.where(layer.even, 0.0, onward), jnp.where(layer.even, back, 0.0)


def _sync(
    asked: Prices, choices: Choices, plan: Plan, held: Layers, backward: Any
) -> tuple[Any, Any]:
    """Return the time of the sums of weight gradients, and what of it is exposed."""
    group = GROUPS[choices.gradients](plan)

    def summed(layer: Layer) -> Any:
        elements = layer.rows * layer.columns
        return jnp.where(plan.data > 1.0, all_reduce(asked, elements, group, False), 0.0)

    sync = total(held, summed)
    return sync, EXPOSED[choices.sync](sync, backward, held.high - held.low)


def _behind(sync: Any, backward: Any, count: Any) -> Any:
    """Return what is left when each layer's sum hides behind the backward of those below it.

    Assumes: the layers of a stage are alike.
    """
    return exposed_sync(sync / count, backward / count, count)


def _outputs(asked: Prices, plan: Plan, held: Layers) -> Any:
    """Return the time to gather the loss and, at the first stage, the input's gradient."""
    samples = held.batch * plan.microbatches
    loss = gather(asked, samples * held.last.columns, plan.data)
    gradient = gather(asked, samples * held.first.rows, plan.data)
    return jnp.where(held.ends, loss, 0.0) + jnp.where(held.begins, gradient, 0.0)


def _update(asked: Prices, layer: Layer) -> Any:
    return elementwise(asked, layer.rows * layer.columns, 2.0)


GROUPS: dict[Gradients, Callable[[Plan], Any]] = {  # ranks that sum weight gradients
    Gradients.TENSOR: lambda plan: jnp.where(plan.tensor > 1.0, plan.tensor, plan.data),
    Gradients.REPLICAS: lambda plan: plan.data,
}
EXPOSED: dict[Sync, Callable[[Any, Any, Any], Any]] = {
    Sync.AFTER: lambda sync, backward, count: sync,
    Sync.BEHIND: _behind,
}
INPUT_GRADIENT = {InputGradient.COMPUTED: 1.0, InputGradient.SKIPPED: 0.0}
GATHERS: dict[Gathers, Callable[[Prices, Plan, Layers], Any]] = {
    Gathers.NONE: lambda asked, plan, held: jnp.zeros_like(held.low),
    Gathers.OUTPUTS: _outputs,
}
OPTIMIZER: dict[Optimizer, Callable[[Prices, Layers], Any]] = {
    Optimizer.NONE: lambda asked, held: jnp.zeros_like(held.low),
    Optimizer.HIGHEST: lambda asked, held: highest(held, lambda layer: _update(asked, layer)),
    Optimizer.ALL: lambda asked, held: total(held, lambda layer: _update(asked, layer)),
}


# ---- The first step of a cold start: the first device hands out data, labels, weights (section 9)

SPLIT = 1e-6  # [s] to cut inputs, or labels, into microbatches


class Handout(NamedTuple):
    """Seconds that handing out takes, [stages, ..] each."""

    start: Any  # the first stage's clock before the step
    weights: Any  # sends of a stage's weights
    layers: Any  # a forward visit without the loss
    highest: Any  # the part of it that is the highest layer
    loss: Any  # the part of the visit that is the loss
    labels: Any  # the send of a microbatch's labels (0 but to the last of several stages)


def handout(inputs: Inputs, asked: Prices, held: Layers, costs: Stages) -> Handout:
    """Return what a cold start costs beside the step.

    Assumes: with several replicas data and weights are there at no cost, as are ranks' shares.
    """
    plan, model = inputs.plan, inputs.model
    assert plan is not None
    into, inner, hidden, out = widths(model)
    pairs = larger(model.layers - 2.0, 0.0)  # square or not, each between two inner widths
    weights = into * jnp.where(model.layers > 1.0, inner, out) + pairs * inner * hidden
    last = jnp.where(model.layers % 2.0 == 0.0, inner, hidden) * out
    weights = weights + jnp.where(model.layers > 1.0, last, 0.0)
    everything = send(asked, inputs.global_batch * (into + out) + weights)
    several = plan.pipeline > 1.0
    start = jnp.where(plan.data > 1.0, 0.0, everything) + jnp.where(several, 2.0 * SPLIT, 0.0)
    ahead = several & held.ends
    return Handout(
        start=jnp.where(held.begins, start, 0.0),
        weights=total(held, lambda layer: send(asked, layer.rows * layer.columns)),
        layers=costs.forward - costs.loss,
        highest=highest(held, lambda layer: layer_forward(asked, plan, held, layer)),
        loss=costs.loss,
        labels=jnp.where(ahead, send(asked, held.batch * boundary(held)), 0.0),
    )


# ---- Operations and events of the simulated program (section 7) ----------------------------------


def counts(inputs: Inputs, choices: Choices) -> tuple[Any, Any]:
    """Return the operations, and the events: an operation has one on every device it keeps."""
    plan, layers = inputs.plan, inputs.model.layers
    assert plan is not None
    data, tensor, stages, many = plan.data, plan.tensor, plan.pipeline, plan.microbatches
    ranks = data * tensor
    visits = ranks * many * (4.0 * layers + 2.0)
    joins = jnp.where(many > 1.0, ranks * many * (layers + 2.0), 0.0)
    alone = visits + joins + ranks * UPDATES[choices.optimizer](stages, layers)
    links = ranks * many * (stages - 1.0)
    sums = jnp.where(tensor > 1.0, data * many * layers, 0.0)
    groups = SUMS[choices.gradients](data, tensor)
    several = data > 1.0
    operations = alone + 2.0 * links + sums + jnp.where(several, layers * groups, 0.0)
    events = alone + 4.0 * links + sums * tensor + jnp.where(several, ranks * layers, 0.0)
    return operations, events


SUMS: dict[Gradients, Any] = {
    Gradients.TENSOR: lambda data, tensor: jnp.where(tensor > 1.0, data, 1.0),
    Gradients.REPLICAS: lambda data, tensor: tensor,
}
UPDATES: dict[Optimizer, Any] = {
    Optimizer.NONE: lambda stages, layers: 0.0,
    Optimizer.HIGHEST: lambda stages, layers: stages,
    Optimizer.ALL: lambda stages, layers: layers,
}
