"""Records of the models that the catalogue lists."""

from jaxroof.limits import BOUNDS
from jaxroof.records import Number, quantity, record


@record
class Model:
    """A stack of equal transformer layers: no embedding, no head, no loss (M1)."""

    layers: Number = quantity("1", "Transformer layers.", whole=True, most=BOUNDS["layers"])
    hidden: Number = quantity(
        "1", "Width of the residual stream.", whole=True, most=BOUNDS["width"]
    )
    feedforward: Number = quantity("1", "Width inside the MLP.", whole=True, most=BOUNDS["width"])
    heads: Number = quantity("1", "Attention heads.", whole=True, most=BOUNDS["width"])
    sequence: Number = quantity("token", "Tokens of one sequence.", whole=True)
    training_tokens: Number = quantity("token", "Tokens of the whole training.", default=1e12)


@record
class Mlp:
    """A stack of square or rectangular matrices, each followed by a ReLU; no biases.

    A missing width defaults to the hidden width.
    """

    layers: Number = quantity(
        "1", "Weight matrices.", whole=True, most=BOUNDS["layers"], symbol="L"
    )
    input_width: Number | None = quantity(
        "1", "Width of the first matrix's input.", whole=True, most=BOUNDS["width"], default=None
    )
    hidden: Number = quantity(
        "1", "Width after every odd layer, from 0.", whole=True, most=BOUNDS["width"]
    )
    inner: Number | None = quantity(
        "1",
        "Width after every even layer, from 0, but the last.",
        whole=True,
        most=BOUNDS["width"],
        default=None,
    )
    output_width: Number | None = quantity(
        "1", "Width of the last matrix's output.", whole=True, most=BOUNDS["width"], default=None
    )
