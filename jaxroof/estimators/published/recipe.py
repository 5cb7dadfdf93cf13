"""Structural choices of a training step, which are static: each compiles its own program."""

import dataclasses
import enum


class Split(enum.Enum):
    """How the matrices of one layer are divided among accelerators."""

    ONE_D = "1d"  # one tensor-parallel group: split by columns, then by rows
    SUMMA = "summa"  # a grid of tensor x context ranks multiplies panel by panel
    CONTEXT = "context"  # as 1d, with each sequence also divided among the context ranks


class Attention(enum.Enum):
    """How the attention core is executed."""

    FUSED = "fused"  # one kernel; the backward pass recomputes the scores
    UNFUSED = "unfused"  # separate kernels for logits, softmax, dropout and weighted sum
    RECOMPUTE = "recompute"  # unfused; the backward pass recomputes the first three
    PANELS = "panels"  # unfused; products are computed panel by panel (summa only)


@dataclasses.dataclass(frozen=True)
class Recipe:
    """The structural choices of a training step.

    >>> Recipe().split
    <Split.ONE_D: '1d'>
    """

    split: Split = Split.ONE_D
    attention: Attention = Attention.FUSED
