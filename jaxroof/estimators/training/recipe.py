"""Structural choices of a model, which its entry of the catalogue states."""

import dataclasses
import enum


class Attention(enum.Enum):
    """How queries, keys and values are made."""

    HEADS = "heads"  # projected head by head: multi-head, grouped-query, multi-query
    LATENT = "latent"  # from latents of low rank (MLA)


class Mlp(enum.Enum):
    """How many matrices an MLP or an expert has."""

    PLAIN = "plain"  # two
    GATED = "gated"  # three: SwiGLU, GeGLU


class Norm(enum.Enum):
    """What a normalisation learns."""

    RMSNORM = "rmsnorm"  # a gain
    LAYERNORM = "layernorm"  # a gain and a shift


class Biases(enum.Enum):
    """Which matrices have a bias."""

    NONE = "none"
    QUERY_KEY_VALUE = "qkv"
    ATTENTION = "attention"  # the output projection too
    MLP = "mlp"  # dense ones
    ALL = "all"  # of attention and of dense MLPs
    EXPERTS = "experts"  # of attention, dense MLPs, experts and the router


class Embeddings(enum.Enum):
    """Whether the head has a matrix of its own."""

    SEPARATE = "separate"
    TIED = "tied"  # the head uses the embedding


@dataclasses.dataclass(frozen=True)
class Recipe:
    """The structural choices of a model; a named model brings its own.

    >>> Recipe().mlp
    <Mlp.GATED: 'gated'>
    """

    attention: Attention = Attention.HEADS
    mlp: Mlp = Mlp.GATED
    norm: Norm = Norm.RMSNORM
    biases: Biases = Biases.NONE
    embeddings: Embeddings = Embeddings.SEPARATE
