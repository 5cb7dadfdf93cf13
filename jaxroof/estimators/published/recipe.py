"""Structural choices of a training step: static, so that each compiles to its own program."""

import dataclasses
import enum
from collections.abc import Mapping
from typing import ClassVar


class Split(enum.Enum):
    """How the matrices of one layer are divided among accelerators."""

    ONE_D = "1d"  # one tensor-parallel group: columns, then rows
    SUMMA = "summa"  # a grid of tensor x context ranks multiplies panel by panel
    CONTEXT = "context"  # as 1d, and each sequence is cut over the context ranks


class Attention(enum.Enum):
    """How the attention core is executed."""

    FUSED = "fused"  # one kernel, scores computed again on the way back
    UNFUSED = "unfused"  # logits, softmax, dropout and weighted sum by themselves
    RECOMPUTE = "recompute"  # unfused, and the first three computed again on the way back
    PANELS = "panels"  # unfused, its products multiplied panel by panel (summa alone)


@dataclasses.dataclass(frozen=True)
class Recipe:
    """The structural choices of a training step.

    >>> Recipe().split
    <Split.ONE_D: '1d'>
    """

    split: Split = Split.ONE_D
    attention: Attention = Attention.FUSED
    # choices of files of earlier versions, and the one value that each had
    FORMER: ClassVar[Mapping[str, str]] = {"convention": "published"}
