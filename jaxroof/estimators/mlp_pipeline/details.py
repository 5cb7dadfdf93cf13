"""A step of an MLP in detail: its pipeline stages, and every event on every device.

The estimator sums the operations of a visit; here each stands by itself, in the order of the
published program, for traces and as a second opinion.
Source: docs/models/distir_model.md, sections 2, 5, 8 and 9.
"""

import collections
import functools
import itertools
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any, NamedTuple

import jax
import numpy as np

from jaxroof import schedules as pipelines
from jaxroof.estimator import Column, Detail, Rows
from jaxroof.estimators.mlp_pipeline import costs
from jaxroof.estimators.mlp_pipeline.chain import weights
from jaxroof.estimators.mlp_pipeline.costs import SPLIT, Prices, counts, prices
from jaxroof.estimators.mlp_pipeline.inputs import Inputs
from jaxroof.estimators.mlp_pipeline.layers import widths
from jaxroof.estimators.mlp_pipeline.plans import legal
from jaxroof.estimators.mlp_pipeline.recipe import (
    Choices,
    Gathers,
    Gradients,
    Handout,
    InputGradient,
    Optimizer,
    Recipe,
    Sends,
    Sync,
)
from jaxroof.estimators.mlp_pipeline.step import memory_limit, simulated
from jaxroof.estimators.pipelines import event_rows
from jaxroof.formulas.schedule import exposed_sync
from jaxroof.limits import check_memory, counted
from jaxroof.records import with_named_absences
from jaxroof.schedules.table import BACKWARD, FORWARD

PHASES = {FORWARD: "forward", BACKWARD: "backward"}
NONE = -1  # no stage, microbatch, replica or rank
ROOT = (NONE, NONE, NONE)  # the device that owns everything at first


class Network(NamedTuple):
    """A network and its split: plain numbers."""

    widths: tuple[float, ...]  # of the input, then of the output of every layer
    batch: float  # samples of a step, over all replicas
    data: int
    tensor: int
    pipeline: int
    microbatches: int


class Operation(NamedTuple):
    """One operation: the members that run it at once, and the name and sizes of its cost."""

    name: str
    kind: str
    phase: str  # of the visit that it belongs to; start and end stand for no visit
    members: tuple[tuple[int, int, int], ...]  # replica, tensor rank, stage
    microbatch: int
    cost: tuple[Any, ...]


class _Visit(NamedTuple):
    """A visit of one replica to one stage: what its operations share."""

    network: Network
    phase: str
    replica: int
    stage: int
    microbatch: int

    def each(self, name: str, *cost: Any, kind: str = "") -> Iterator[Operation]:
        """Yield an operation that every tensor rank runs alone."""
        for rank in range(self.network.tensor):
            members = ((self.replica, rank, self.stage),)
            yield Operation(name, kind or self.phase, self.phase, members, self.microbatch, cost)

    def together(self, elements: float) -> Iterator[Operation]:
        """Yield the all-reduce of the tensor ranks, where there are several."""
        ranks, held, name = self.network.tensor, self.microbatch, "MPIAllreduce"
        if ranks > 1:
            members = tuple((self.replica, rank, self.stage) for rank in range(ranks))
            cost = ("all_reduce", elements, float(ranks), True)
            yield Operation(name, "all-reduce", self.phase, members, held, cost)

    def send(self, start: int, end: int, elements: float) -> Iterator[Operation]:
        """Yield the sends of every tensor rank of a stage to its peer in another."""
        for rank in range(self.network.tensor):
            members = ((self.replica, rank, start), (self.replica, rank, end))
            cost = ("send", elements)
            yield Operation("Send", "send", self.phase, members, self.microbatch, cost)

    def joined(self, name: str, *cost: Any) -> Iterator[Operation]:
        """Yield what joins a microbatch's piece to those before it; the first is taken as is."""
        if self.network.microbatches > 1 and self.microbatch == 0:
            yield from self.each("Identity", "free")
        elif self.network.microbatches > 1:
            yield from self.each(name, *cost)


def program(
    network: Network, order: Sequence[Sequence[Any]], choices: Choices
) -> Iterator[Operation]:
    """Yield the operations of one step in program order.

    Arguments: ``order`` has a row a timestep, of a (kind, microbatch) for each stage, kinds as in
    ``schedules.table``.
    """
    if choices.handout is Handout.COLD:
        yield from _handout(network)
    for replica in range(network.data):
        for row in order:
            visits = [
                _Visit(network, PHASES[kind], replica, stage, microbatch)
                for stage, (kind, microbatch) in enumerate(row)
                if kind in PHASES
            ]
            for visit in visits:
                yield from VISITS[visit.phase](visit, choices)
            for visit in visits:
                yield from _sent_on(visit)
    yield from _ending(network, choices)


def layers_of(network: Network, stage: int) -> range:
    """Return the layers of a stage.

    >>> layers_of(Network((8.0,) * 9, 4.0, 1, 1, 4, 2), 1)
    range(2, 4)
    """
    each = (len(network.widths) - 1) // network.pipeline
    return range(stage * each, (stage + 1) * each)


def local(network: Network, layer: int) -> tuple[float, float]:
    """Return rows and columns of a rank's share of a weight: even layers are cut by columns.

    >>> local(Network((8.0, 16.0, 8.0), 4.0, 1, 2, 1, 1), 0)
    (8.0, 8.0)
    >>> local(Network((8.0, 16.0, 4.0), 4.0, 1, 2, 1, 1), 1)
    (8.0, 4.0)
    """
    taken, made = network.widths[layer], network.widths[layer + 1]
    if layer % 2:
        return taken / network.tensor, made
    return taken, made / network.tensor


def rows_of(network: Network) -> float:
    """Return the samples of one microbatch of one replica."""
    return network.batch / (network.data * network.microbatches)


def _forward(visit: _Visit, choices: Choices) -> Iterator[Operation]:
    network, stage, cold = visit.network, visit.stage, choices.handout is Handout.COLD
    rows, output = rows_of(network), rows_of(network) * network.widths[-1]
    for layer in layers_of(network, stage):
        taken, made = local(network, layer)
        if cold and stage > 0 and visit.microbatch == 0:
            yield from visit.send(0, stage, taken * made)
        yield from visit.each("MatMul", "product", rows, taken, made)
        if layer % 2:
            yield from visit.together(rows * made)
        yield from visit.each("Relu", "elementwise", rows * made, 1.0)
    if stage == network.pipeline - 1:
        if cold and stage > 0:
            yield from visit.send(0, stage, output)
        yield from visit.each("Loss", "loss", output)
        yield from visit.joined("Concat", "join")
        yield from visit.each("LossGrad", "loss", output)


def _backward(visit: _Visit, choices: Choices) -> Iterator[Operation]:
    network, rows = visit.network, rows_of(visit.network)
    for layer in reversed(layers_of(network, visit.stage)):
        taken, made = local(network, layer)
        yield from visit.each("ReluGrad", "elementwise", rows * made, 2.0)
        needed = layer > 0 or choices.input_gradient is InputGradient.COMPUTED
        cost = "product_gradient" if needed else "weight_gradient"
        yield from visit.each("MatMulGrad", cost, rows, taken, made)
        if layer % 2 == 0 and needed:
            yield from visit.together(rows * taken)
        if layer == 0 and needed:
            yield from visit.joined("Concat", "join")
        yield from visit.joined("Add", "elementwise", taken * made, 2.0)


VISITS = {"forward": _forward, "backward": _backward}


def _sent_on(visit: _Visit) -> Iterator[Operation]:
    """Yield the sends of what a visit made to the stage that takes it, where there is one."""
    network, stage = visit.network, visit.stage
    other = stage + (1 if visit.phase == "forward" else -1)
    if 0 <= other < network.pipeline:
        last = layers_of(network, min(other, stage))[-1]
        yield from visit.send(stage, other, rows_of(network) * local(network, last)[1])


def _ending(network: Network, choices: Choices) -> Iterator[Operation]:
    """Yield what follows the last visit: gathers and all-reduces over replicas, updates."""
    rows, last = network.batch / network.data, network.pipeline - 1
    cost: tuple[Any, ...]
    gathers = choices.gathers is Gathers.OUTPUTS
    if gathers:
        cost = ("gather", rows * network.widths[-1], float(network.data))
        yield from _over_replicas(network, last, "gather", cost)
    if choices.sync is Sync.BEHIND:
        yield from _hidden_sums(network, choices)
    across = choices.gradients is Gradients.REPLICAS or network.tensor == 1
    every = 0 if choices.sync is Sync.BEHIND else len(network.widths) - 1
    for layer in reversed(range(every)):
        taken, made = local(network, layer)
        stage = layer // len(layers_of(network, 0))
        if across:
            cost = ("all_reduce", taken * made, float(network.data), False)
            yield from _over_replicas(network, stage, "reduce", cost)
            continue
        for replica in range(network.data if network.data > 1 else 0):
            yield from _Visit(network, "end", replica, stage, NONE).together(taken * made)
    if gathers:
        cost = ("gather", rows * network.widths[0], float(network.data))
        yield from _over_replicas(network, 0, "gather", cost)
    yield from _updates(network, choices)


def _hidden_sums(network: Network, choices: Choices) -> Iterator[Operation]:
    """Yield the part of each stage's all-reduces over replicas that no backward visit hides."""
    for stage in reversed(range(network.pipeline)):
        visit = _Visit(network, "backward", 0, stage, 0)
        own = [one for one in _backward(visit, choices) if one.members[0][1] == 0]
        shapes = [local(network, layer) for layer in layers_of(network, stage)]
        sums = tuple(
            ("all_reduce", taken * made, float(network.data), False) for taken, made in shapes
        )
        cost = ("exposed", tuple(one.cost for one in own), sums)
        yield from _over_replicas(network, stage, "reduce", cost)


def _updates(network: Network, choices: Choices) -> Iterator[Operation]:
    replicas = 0 if choices.optimizer is Optimizer.NONE else network.data
    some = slice(-1, None) if choices.optimizer is Optimizer.HIGHEST else slice(None)
    places = (range(replicas), range(network.tensor), range(network.pipeline))
    for place in itertools.product(*places):
        for layer in layers_of(network, place[-1])[some]:
            taken, made = local(network, layer)
            cost = ("elementwise", taken * made, 2.0)
            yield Operation("SGDOptimizer", "optimizer", "end", (place,), NONE, cost)


def _over_replicas(
    network: Network, stage: int, kind: str, cost: tuple[Any, ...]
) -> Iterator[Operation]:
    """Yield a collective over the replicas for every tensor rank of a stage."""
    for rank in range(network.tensor if network.data > 1 else 0):
        members = tuple((replica, rank, stage) for replica in range(network.data))
        yield Operation(f"MPIAll{kind}", f"all-{kind}", "end", members, NONE, cost)


def _handout(network: Network) -> Iterator[Operation]:
    """Yield how the root hands data, labels and weights to the first stage before any visit.

    One replica is sent everything, several are served by collectives that are free; weights of
    later stages follow with their first visits.
    """
    widths = network.widths
    weights = [taken * made for taken, made in itertools.pairwise(widths)]
    first = tuple((replica, 0, 0) for replica in range(network.data))
    for size in (network.batch * widths[0], network.batch * widths[-1], *weights):
        if network.data == 1:
            yield Operation("Send", "send", "start", (ROOT, *first), NONE, ("send", size))
    ways = [("Scatter", "Broadcast")] * 2 + [("Broadcast", "Scatter")] * len(weights)
    for over_replicas, _ in ways if network.data > 1 else ():
        yield Operation(over_replicas, "send", "start", (ROOT, *first), NONE, ("free",))
    for replica in range(network.data if network.tensor > 1 else 0):
        ranks = tuple((replica, rank, 0) for rank in range(network.tensor))
        for _, over_ranks in ways:
            yield Operation(over_ranks, "send", "start", ranks, NONE, ("free",))
    for replica in range(network.data if network.pipeline > 1 else 0):
        visit = _Visit(network, "start", replica, 0, NONE)
        for _ in ("data", "labels"):
            yield from visit.each("Split", "cut", kind="other")


# ---- When every operation runs, on every device that takes part in it ----------------------------


def events(
    operations: Iterable[Operation], network: Network, asked: Prices, posted: bool = False
) -> list[tuple[Any, ...]]:
    """Return an event for every operation and device that takes part, in program order [s].

    Who takes part in an operation waits until all are free, then is kept for its whole duration.
    Sends that are ``posted`` keep nobody: they are no events, the visit that needs them waits.
    """

    @functools.cache
    def seconds(name: str, *sizes: Any) -> float:
        return float(COSTS[name](asked, *sizes))

    clocks: dict[int, float] = collections.defaultdict(float)
    there: dict[tuple[int, str, int], float] = {}  # messages, by receiver and visit
    found: list[tuple[Any, ...]] = []
    for name, kind, phase, members, microbatch, cost in operations:
        devices = [device_of(network, member) for member in members]
        duration = seconds(*cost)
        if posted and kind == "send":
            there[devices[1], phase, microbatch] = clocks[devices[0]] + duration
            continue
        waits = [there.pop((device, phase, microbatch), 0.0) for device in devices]
        start = max(*(clocks[device] for device in devices), *waits)
        for device, (replica, rank, stage) in zip(devices, members, strict=True):
            place = (device, replica, rank, stage, microbatch)
            found.append((name, kind, phase, *place, start, duration))
            clocks[device] = start + duration
    return found


def device_of(network: Network, member: tuple[int, int, int]) -> int:
    """Return the number of a device: stages innermost, replicas outermost, 0 is the root.

    >>> device_of(Network((8.0,) * 9, 4.0, 2, 2, 2, 2), (1, 0, 1))
    6
    """
    replica, rank, stage = member
    if stage == NONE:
        return 0
    return 1 + (replica * network.tensor + rank) * network.pipeline + stage


def _weight_gradient(asked: Prices, m: float, k: float, n: float) -> Any:
    return costs.product(asked, k, m, n)


def _product_gradient(asked: Prices, m: float, k: float, n: float) -> Any:
    return costs.product(asked, m, n, k) + _weight_gradient(asked, m, k, n)


def _loss(asked: Prices, elements: float) -> Any:
    return costs.elementwise(asked, elements, asked.loss_operands)


def _exposed(asked: Prices, backward: Sequence[Any], sums: Sequence[Any]) -> Any:
    """Return what is left of a stage's sums where each hides behind the backward of a layer."""
    each = [sum(COSTS[name](asked, *sizes) for name, *sizes in some) for some in (sums, backward)]
    count = float(len(sums))
    return exposed_sync(each[0] / count, each[1] / count, count)


COSTS: dict[str, Callable[..., Any]] = {
    "product": costs.product,
    "product_gradient": _product_gradient,
    "weight_gradient": _weight_gradient,
    "elementwise": costs.elementwise,
    "loss": _loss,
    "send": costs.send,
    "all_reduce": costs.all_reduce,
    "gather": costs.gather,
    "exposed": _exposed,
    "join": lambda asked: asked.join,
    "cut": lambda asked: SPLIT,
    "free": lambda asked: 0.0,
}


EVENT = 2000  # bytes of an event while a trace is made and written
MEANINGS = {
    "forward": ("s", "Time of a forward visit"),
    "backward": ("s", "Time of a backward visit"),
    "send": ("s", "Time of a message to the next stage"),
    "sync": ("s", "Sums over replicas that nothing hides"),
    "done": ("s", "When the stage has done its visits"),
    "busy_share": ("1", "Share of the step that the stage is busy"),
    "idle_share": ("1", "Share of the step that the stage idles"),
    "memory": ("B", "Most memory that one device of the stage holds at once"),
    "weights": ("B", "Memory of the stage's weights on one device"),
    "layers": ("1", "Layers of the stage"),
    "memory_limit": ("B", "Memory that a step may fill"),
    "memory_fits": ("1", "Memory is at most the usable capacity"),
    "step_time": ("s", "Time of one step"),
}


def check_plan(inputs: Inputs, recipe: Recipe) -> None:
    """Check that the plan is legal, in words."""
    legal(with_named_absences(inputs), recipe.chosen())


def stage_rows(inputs: Inputs, recipe: Recipe) -> Rows:
    """Return work, idle time and memory of every stage."""
    assert inputs.plan is not None
    stages = int(inputs.plan.pipeline)
    found = jax.jit(lambda asked: _stages(with_named_absences(asked), recipe))(inputs)
    step_time = float(found.pop("step_time"))
    every: dict[str, Any] = {name: np.asarray(some)[:stages] for name, some in found.items()}
    limit = float(memory_limit(with_named_absences(inputs)))
    fits = every["memory"] <= limit
    every |= {"memory_limit": limit, "memory_fits": fits, "step_time": step_time}
    columns = {
        name: Column(
            values,
            ("stage",)[: np.ndim(values)],
            {"units": MEANINGS[name][0], "long_name": MEANINGS[name][1]},
        )
        for name, values in every.items()
    }
    return Rows({**columns, "stage": Column(np.arange(stages), ("stage",), {}, label=True)})


def _stages(inputs: Inputs, recipe: Recipe) -> dict[str, Any]:
    run = simulated(inputs, recipe)
    costs, held = run.costs, run.held
    return {
        "forward": costs.forward,
        "backward": costs.backward,
        "send": costs.send,
        "sync": costs.exposed,
        "done": run.done,
        "busy_share": run.busy,
        "idle_share": 1.0 - run.busy,
        "memory": run.memory,
        "weights": weights(run.inputs, held),
        "layers": held.high - held.low,
        "step_time": run.step_time,
    }


def event_list(inputs: Inputs, recipe: Recipe) -> Rows:
    """Return every operation of every device, in the order of the recipe.

    Raises: TooLarge for more events than fit in memory, with the way out.
    """
    inputs, choices = with_named_absences(inputs), recipe.chosen()
    count = int(counts(inputs, choices)[1])
    remedy = "expected fewer microbatches, devices or layers"
    check_memory(counted(count, "event"), EVENT * count, remedy)
    network, order = network_of(inputs), choices.order.value
    table = pipelines.build(order, network.pipeline, network.microbatches)
    rows = np.stack([table.kind, table.microbatch], axis=-1).tolist()
    operations = program(network, rows, choices)
    found = events(operations, network, prices(inputs, choices), choices.sends is Sends.POSTED)
    degrees = f"{network.data} x {network.tensor} x {network.pipeline} (data x tensor x pipeline)"
    many = f"{network.microbatches} microbatch{'es' if network.microbatches > 1 else ''}"
    size = f"{len(network.widths) - 1}-layer MLP, {degrees}, {many}"
    return event_rows(found, title=f"{size}, {order}, {recipe.profile.value}", schedule=order)


def network_of(inputs: Inputs) -> Network:
    """Return the network and the split of some inputs as plain numbers."""
    plan, layers = inputs.plan, int(inputs.model.layers)
    assert plan is not None
    into, inner, hidden, out = map(float, widths(inputs.model))
    between = [hidden if layer % 2 else inner for layer in range(layers - 1)]
    degrees = (int(getattr(plan, name)) for name in Network._fields[2:])
    return Network((into, *between, out), float(inputs.global_batch), *degrees)


DETAILS = {
    "stages": Detail(stage_rows, (), check_plan, one_by_one=True),
    "events": Detail(event_list, (), check_plan, one_by_one=True),
}
