"""Structural choices of the unfused blocks."""

import dataclasses
import enum


class Variant(enum.Enum):
    """How the operators between the matrix products are split."""

    TENSOR = "tensor"  # along the sequence, by the tensor degree
    SEQUENCE = "sequence_parallel"  # along the sequence, by a degree of its own


@dataclasses.dataclass(frozen=True)
class Recipe:
    """The structural choices of the unfused blocks.

    >>> Recipe().variant
    <Variant.TENSOR: 'tensor'>
    """

    variant: Variant = Variant.TENSOR


DIVIDED: dict[Variant, dict[str, tuple[str, ...]]] = {  # what of the model each degree divides
    Variant.TENSOR: {"tensor": ("heads", "feedforward", "sequence")},
    Variant.SEQUENCE: {
        "tensor": ("heads", "feedforward"),
        "sequence": ("sequence", "feedforward"),
    },
}
