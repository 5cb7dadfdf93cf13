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
