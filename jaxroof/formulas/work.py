"""The costs of one operation of a layer, independent of the machine."""

from typing import NamedTuple

from jaxroof.records import Number


class Work(NamedTuple):
    """Arithmetic and memory traffic of one operation in one direction."""

    flops: Number  # [FLOP]
    traffic: Number  # bytes moved between HBM and the chip [B]


class Operation(NamedTuple):
    """One operation of a layer: its work in both directions and its saved activations."""

    forward: Work
    backward: Work
    kept: Number  # activations held for the backward pass [B]
    parameters: Number  # weights on this accelerator [1]


class Ledger(NamedTuple):
    """One operation, array by array: the bytes it reads, writes and saves, and its FLOP.

    The backward pass reads saved activations once. Where conventions differ, the formula that
    returns the ledger has an argument.
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
    weights_again: Number = 0.0  # weights read again, backward [B]
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
