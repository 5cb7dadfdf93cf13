"""One operation of a layer, as every reading of the layer takes it.

Parameters, FLOP, seconds, messages, saved bytes and what is computed again are sums over one list
of operations, so that none can drift from another. A kind of layer is a file beside this one that
returns its list.
Source: docs/models/parameters_flops_memory.md, sections 2.1, 3 and 4.5;
docs/models/training_step_today.md, sections 4 and 11.
"""

import enum
from collections.abc import Callable, Iterable
from typing import NamedTuple

from jaxroof.estimators.training.inputs import (
    BatchPlan,
    Framework,
    PlannedStep,
    TrainingModel,
    TrainingPlan,
)
from jaxroof.estimators.training.rates import Rates, Unit, matmul, stream
from jaxroof.estimators.training.recipe import Module, TrainingRecipe
from jaxroof.formulas.arithmetic import where
from jaxroof.records import Number


class Passes(NamedTuple):
    """Seconds or FLOP of the forward pass, and of the gradients of inputs and of weights."""

    forward: Number
    inputs: Number
    weights: Number = 0.0

    @property
    def backward(self) -> Number:
        """Return those of the backward pass."""
        return self.inputs + self.weights


class Cut(enum.Enum):
    """How ranks divide a matrix."""

    COLUMNS = "columns"  # its outputs, over the tensor group
    ROWS = "rows"  # its inputs, over the tensor group
    WHOLE = "whole"  # not at all
    COPIED_COLUMNS = "columns of a copy"  # its outputs, of a matrix that every tensor rank has
    EXPERT_COLUMNS = "expert columns"  # its outputs, over the ranks that share an expert
    EXPERT_ROWS = "expert rows"


class Matrix(NamedTuple):
    """A matrix that tokens are multiplied by."""

    inputs: Number
    outputs: Number
    cut: Cut
    copies: Number = 1.0  # that a layer holds
    met: Number = 1.0  # that one token meets
    divided: bool = False  # whether ranks of the tensor group divide the tokens


class Weights(NamedTuple):
    """Parameters, by who shares them."""

    sharded: Number = 0.0  # over tensor ranks
    replicated: Number = 0.0  # on every tensor rank
    routed: Number = 0.0  # over expert ranks

    @property
    def all(self) -> Number:
        """Return all parameters."""
        return self.sharded + self.replicated + self.routed


class Tokens(NamedTuple):
    """Tokens of one microbatch, and the messages of a tensor group that carry them."""

    group: Number  # of one tensor group
    norm: Number  # of one rank, in norms and residuals
    rank: Number  # of one rank, all ranks sharing
    gathered: Number  # all-gather or reduce-scatter of the hidden states [s]
    reduced: Number  # all-reduce of the hidden states [s]
    message: Number  # bytes of the hidden states of a tensor group


class Work(NamedTuple):
    """What the seconds of an operation follow from."""

    model: TrainingModel
    plan: BatchPlan
    rates: Rates
    software: Framework
    tokens: Tokens


class Sizes(NamedTuple):
    """Amounts of one microbatch on one rank, of which activations are made."""

    tokens: Number  # T
    state: Number  # x, bytes of a hidden state
    shards: Number  # sigma
    routed: Number  # R


class Kept(NamedTuple):
    """What the saved bytes of an operation follow from."""

    inputs: PlannedStep
    recipe: TrainingRecipe
    size: Sizes


class Saved(NamedTuple):
    """Bytes that an operation keeps for the backward pass."""

    term: str  # of a stage's memory
    bytes: Callable[[Kept], Number]
    dropped: tuple[Module, ...] = ()  # by the recomputation of any of these
    read: bool = False  # by a matrix, whose weight gradient needs it


class Operation(NamedTuple):
    """One operation of a layer; its seconds are those of its matrix if it has no kernel."""

    part: str = ""  # of the model, as its parameters are summed
    matrix: Matrix | None = None
    vectors: Weights = Weights()  # gains and biases
    trained: bool = True  # whether they have gradients
    share: Number = 1.0  # of the layers of its kind that have it
    time: str = ""  # the part of a step's time that it belongs to, if it takes any
    kernel: Callable[[Work], Passes] | None = None
    flops: Callable[[Work], Passes] | None = None  # of a kernel without a matrix
    again: tuple[Module, ...] = ()  # the recomputation of any of these repeats its forward pass
    cast_again: bool = False  # whether its inputs are cast again then
    repeat: Callable[[Work], Number] | None = None  # its seconds then, if not of its forward pass
    saved: tuple[Saved, ...] = ()
    momentary: Callable[[Kept], Number] | None = None  # bytes while it runs, beside what is saved


Operations = dict[str, Operation]  # by the words for each
ADAPTERS = "adapters"  # the part of what is trained where the rest is frozen


HOLDERS = {  # of the parameters of a matrix, by who shares them
    Cut.COLUMNS: "sharded",
    Cut.ROWS: "sharded",
    Cut.WHOLE: "replicated",
    Cut.COPIED_COLUMNS: "replicated",
    Cut.EXPERT_COLUMNS: "routed",
    Cut.EXPERT_ROWS: "routed",
}


def having(share: Number, operations: Operations) -> Operations:
    """Return operations that a share of the layers has; none if it is known to be 0."""
    if known(share, 0.0):
        return {}
    return {n: one._replace(share=times(share, one.share)) for n, one in operations.items()}


def known(amount: Number, number: float) -> bool:
    """Return whether an amount is a number whatever the inputs.

    Choices of a recipe and numbers in code are floats of Python; what is computed of inputs with
    ``where`` is not, so that nothing hangs on the value of an input.
    """
    return type(amount) is float and amount == number


def times(share: Number, amount: Number) -> Number:
    """Return a share of an amount; what is known to be all or nothing takes no product."""
    if known(amount, 0.0) or known(share, 0.0):
        return 0.0
    return amount if known(share, 1.0) else share * amount


def plus(one: Number, other: Number) -> Number:
    """Return a sum; what is known to be nothing is not added."""
    if known(one, 0.0):
        return other
    return one if known(other, 0.0) else one + other


def total(amounts: Iterable[Number]) -> Number:
    """Return the sum of some amounts."""
    found: Number = 0.0
    for one in amounts:
        found = plus(found, one)
    return found


def weights(operation: Operation) -> Weights:
    """Return the parameters of an operation: copies n m of its matrix, gains and biases."""
    found, matrix = operation.vectors, operation.matrix
    if matrix is not None:
        kind = HOLDERS[matrix.cut]
        held = matrix.copies * matrix.inputs * matrix.outputs
        found = found._replace(**{kind: plus(getattr(found, kind), held)})
    if known(operation.share, 1.0):
        return found
    return Weights(*(times(operation.share, one) for one in found))


def products(operation: Operation) -> Number:
    """Return the multiply-adds of one token with the matrix of an operation, forward: met n m."""
    matrix = operation.matrix
    if matrix is None:
        return 0.0
    return times(operation.share, matrix.met * matrix.inputs * matrix.outputs)


def on_rank(matrix: Matrix, plan: TrainingPlan) -> tuple[Number, Number]:
    """Return the outputs and the inputs of a matrix on one rank."""
    inputs, outputs, cut, *_ = matrix
    columns = {
        Cut.COLUMNS: plan.tensor,
        Cut.COPIED_COLUMNS: plan.tensor,
        Cut.EXPERT_COLUMNS: plan.expert_tensor,
    }
    rows = {Cut.ROWS: plan.tensor, Cut.EXPERT_ROWS: plan.expert_tensor}
    return outputs / columns.get(cut, 1.0), inputs / rows.get(cut, 1.0)


def rows(matrix: Matrix, tokens: Tokens) -> Number:
    """Return the tokens that a rank multiplies by a matrix."""
    return tokens.rank if matrix.divided else tokens.group


def product(matrix: Matrix, work: Work, unit: Unit, read: Number) -> Passes:
    """Return the seconds of a product; weight gradients are summed in 32 bits."""
    m, (n, k) = rows(matrix, work.tokens), on_rank(matrix, work.plan)
    return Passes(
        matmul(m, n, k, unit, read, 2.0),
        matmul(m, k, n, unit, read, 2.0),
        matmul(k, n, m, unit, read, 8.0),
    )


def cast(matrix: Matrix, work: Work) -> Passes:
    """Return the seconds in which inputs of a product, then gradients, are cast to few bits."""
    m, (n, k), rates = rows(matrix, work.tokens), on_rank(matrix, work.plan), work.rates
    low = where(rates.low > 0.0, 1.0, 0.0)
    forward, backward = (low * stream(rates.cast * m * width, 1.0, rates.layer) for width in (k, n))
    return Passes(forward, backward)


def seconds(operation: Operation, work: Work) -> Passes:
    """Return the seconds of an operation in a layer that has it.

    What is frozen has no weight gradients.
    """
    if operation.kernel is not None:
        found = operation.kernel(work)
    else:
        assert operation.matrix is not None
        found = product(operation.matrix, work, work.rates.layer, work.rates.read)
    if operation.part == ADAPTERS:
        return found
    return found._replace(weights=times(work.model.trained, found.weights))


def scaled(share: Number, passes: Passes) -> Passes:
    """Return a share of some passes."""
    return Passes(*(times(share, one) for one in passes))


def summed(passes: list[Passes]) -> Passes:
    """Return the sums of some passes."""
    return Passes(*map(total, zip(*passes, strict=True))) if passes else Passes(0.0, 0.0)
