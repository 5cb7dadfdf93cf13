"""Bytes of one element of what an operator reads and writes."""

from jaxroof.records import Number, quantity, record

# Bytes of one element by number format.
DTYPES = {
    "fp32": 4.0,
    "bf16": 2.0,
    "fp16": 2.0,
    "fp8": 1.0,
    "int8": 1.0,
    "fp4": 0.5,
    "int4": 0.5,
}


@record
class Widths:
    """Bytes of one element: of the input, of the weights (or cache) and of the output."""

    input: Number = quantity("B", "Bytes of one element of the input.", default=2.0)
    weight: Number = quantity("B", "Bytes of one element of the weights or cache.", default=2.0)
    output: Number = quantity("B", "Bytes of one element of the output.", default=2.0)


WIDTHS = Widths()
