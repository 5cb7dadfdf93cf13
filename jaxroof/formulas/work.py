"""What one operation of a layer costs, before any machine is named."""

from typing import NamedTuple

from jaxroof.records import Number


class Work(NamedTuple):
    """Arithmetic and memory traffic of one operation in one direction."""

    flops: Number  # [FLOP]
    traffic: Number  # bytes moved between HBM and the chip [B]


class Operation(NamedTuple):
    """One operation of a layer: its work in both directions and what it keeps."""

    forward: Work
    backward: Work
    kept: Number  # activations held for the backward pass [B]
    parameters: Number  # weights on this accelerator [1]


class Ledger(NamedTuple):
    """One operation array by array: what it reads, writes and keeps, and its arithmetic.

    What is kept is read once on the way back. What conventions count differently is an argument
    of the formula that returns the ledger.
    """

    flops_forward: Number  # [FLOP]
    flops_backward: Number  # [FLOP]
    entering: Number  # activations read, forward [B]
    leaving: Number  # activations written, forward [B]
    kept: Number  # activations and masks held for the backward pass [B]
    gradients: Number  # gradients of activations read and written, backward [B]
    parameters: Number  # weights on this accelerator [1]
    beside: Number = 0.0  # a second operand, a mask or statistics, forward [B]
    weights: Number = 0.0  # weights read, forward [B]
    weights_again: Number = 0.0  # weights read once more, backward [B]
    weight_gradients: Number = 0.0  # [B]

    @property
    def forward(self) -> Work:
        """Return the work of the forward pass."""
        moved = self.entering + self.beside + self.leaving
        return Work(self.flops_forward, moved + self.weights)

    @property
    def backward(self) -> Work:
        """Return the work of the backward pass."""
        moved = self.gradients + self.kept
        return Work(self.flops_backward, moved + self.weights_again + self.weight_gradients)

    @property
    def operation(self) -> Operation:
        """Return the sums over the arrays."""
        return Operation(self.forward, self.backward, self.kept, self.parameters)
