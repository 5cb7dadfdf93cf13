"""Records of the models that the catalogue lists: bare layers, and MLPs."""

from typing import Any

from jaxroof.limits import BOUNDS
from jaxroof.records import Number, quantity, record


def count(doc: str, most: str = "width", **options: Any) -> Number:
    """Declare a number of whole things: a width, or what has another bound."""
    return quantity("1", doc, whole=True, most=BOUNDS[most], **options)


@record
class Model:
    """A stack of equal transformer layers: no embedding, no head, no loss (M1)."""

    layers: Number = count("Transformer layers.", "layers")
    hidden: Number = count("Width of the residual stream.")
    feedforward: Number = count("Width inside the MLP.")
    heads: Number = count("Attention heads.")
    sequence: Number = quantity("token", "Tokens of one sequence.", whole=True)
    training_tokens: Number = quantity("token", "Tokens of the whole training.", default=1e12)


@record
class Mlp:
    """A stack of square or rectangular matrices, each followed by a ReLU; no biases.

    A missing width defaults to the hidden width.
    """

    layers: Number = count("Weight matrices.", "layers", symbol="L")
    input_width: Number | None = count("Width of the first matrix's input.", default=None)
    hidden: Number = count("Width after every odd layer, from 0.")
    inner: Number | None = count(
        "Width after every even layer, from 0, but the last.", default=None
    )
    output_width: Number | None = count("Width of the last matrix's output.", default=None)
