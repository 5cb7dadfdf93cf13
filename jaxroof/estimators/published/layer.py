"""The parts of a layer: its operations, their messages, and the ranks they are split over."""

from typing import NamedTuple

from jaxroof.catalog.models import Model
from jaxroof.estimators.published.inputs import Precision
from jaxroof.formulas import ledger, network
from jaxroof.formulas.arithmetic import where
from jaxroof.formulas.ledger import Operation
from jaxroof.records import Number


class Message(NamedTuple):
    """One collective of an operation."""

    collective: network.Collective
    volume: Number  # full buffer [B]
    group: Number
    fast: Number


Messages = tuple[Message, ...]


class LayerOperation(NamedTuple):
    """One named operation of a layer: the work of one rank, and the FLOP that the model needs."""

    work: Operation
    model_flops: Number | None  # all ranks, one sequence forward [FLOP]; None at the vector rate
    forward: Messages = ()
    backward: Messages = ()
    recomputed: bool = False  # its forward runs again in the backward pass
    panels: Number | None = None  # its messages are sent panel by panel, hidden behind its work

    @property
    def matrix(self) -> bool:
        """Return whether the operation runs at the matrix rate (else at the vector rate)."""
        return self.model_flops is not None


Operations = dict[str, LayerOperation]


class Ranks(NamedTuple):
    """The plan fields that determine how a layer is split."""

    tensor: Number
    context: Number
    microbatch: Number
    panels: Number
    fast_tensor: Number
    fast_context: Number

    def over_tensor(self, collective: network.Collective, volume: Number) -> Message:
        """Return a message among the tensor ranks, empty where there is only one."""
        return _among(collective, volume, self.tensor, self.fast_tensor)

    def over_context(self, collective: network.Collective, volume: Number) -> Message:
        """Return a message among the context ranks, empty where there is only one."""
        return _among(collective, volume, self.context, self.fast_context)


def _among(collective: network.Collective, volume: Number, group: Number, fast: Number) -> Message:
    return Message(collective, where(group > 1.0, volume, 0.0), group, fast)


class LayerContext(NamedTuple):
    """The arguments that every layer function shares."""

    model: Model
    precision: Precision
    vector_cost: Number  # matrix rate / vector rate
    ranks: Ranks

    @property
    def widths(self) -> tuple[Number, Number, Number]:
        """Return the bytes of a weight, an activation and a gradient."""
        return self.precision.weight, self.precision.activation, self.precision.gradient

    def product_flops(self, inputs: Number, outputs: Number) -> Number:
        """Return the FLOP of multiplying the tokens of a sequence by a whole matrix.

        F = 2 D i o

        Units: inputs, outputs [1] -> [FLOP].
        Source: Chowdhery et al. 2022 (arXiv 2204.02311), appendix B: 2 FLOP per weight and token.
        """
        return 2.0 * self.model.sequence * inputs * outputs

    def bias(self, rows: Number, width: Number) -> LayerOperation:
        """Return the addition of a bias."""
        return LayerOperation(ledger.bias(rows, width, *self.widths), None)

    def dropout(self, elements: Number) -> LayerOperation:
        """Return a dropout."""
        work = ledger.dropout(elements, self.precision.activation, self.precision.mask)
        return LayerOperation(work.operation, None)

    def gelu(self, elements: Number) -> LayerOperation:
        """Return a GeLU."""
        work = ledger.pointwise(elements, self.precision.activation)
        return LayerOperation(work.operation, None)
