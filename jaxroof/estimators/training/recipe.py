"""Structural choices of a training step: its own, and those of its model.

Source: docs/models/parameters_flops_memory.md, sections 1, 2, 4.5 to 4.7 and 10.3.
"""

import dataclasses
import enum

from jaxroof.records import Number

# ---- Of a model ---------------------------------------------------------------------------------


class Attention(enum.Enum):
    """How queries, keys and values are made."""

    HEADS = "heads"  # projected head by head: multi-head, grouped-query, multi-query
    LATENT = "latent"  # from latents of low rank (MLA)
    SPARSE = "sparse"  # the same, among the keys that an indexer keeps


class Recurrence(enum.Enum):
    """Which recurrent layers stand beside those with attention."""

    NONE = "none"
    MAMBA = "mamba"  # Mamba-2
    DELTA = "delta"  # gated DeltaNet
    KDA = "kda"  # Kimi Delta Attention


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
    """The structural choices of a model; a named model brings its own."""

    attention: Attention = Attention.HEADS
    recurrence: Recurrence = Recurrence.NONE
    mlp: Mlp = Mlp.GATED
    norm: Norm = Norm.RMSNORM
    biases: Biases = Biases.NONE
    embeddings: Embeddings = Embeddings.SEPARATE


# ---- Of a training step -------------------------------------------------------------------------


class Schedule(enum.Enum):
    """Who runs which microbatch when; 1F1B is interleaved where a rank has several chunks."""

    ONE_F_ONE_B = "1f1b"
    GPIPE = "gpipe"
    ZB_H1 = "zb-h1"
    DUALPIPE = "dualpipe"

    ELSEWHERE = enum.nonmember(  # names of what other fields say
        {"interleaved": "interleaving is vp, of the plan; expected 1f1b, with vp of 2 or more"}
    )


class Module(enum.Enum):
    """A part of a layer that selective recomputation computes again."""

    LAYERNORM = "layernorm"
    CORE_ATTENTION = "core_attn"
    LATENT_PROJECTION = "mla_up_proj"
    MLP = "mlp"
    SHARED_EXPERTS = "shared_experts"
    EXPERTS = "moe"
    EXPERT_ACTIVATION = "moe_act"


class Selective(enum.Enum):
    """The parts of a layer that a plan with selective recomputation computes again."""

    LIGHT = "light"  # what takes no large product: norms, kept scores, up-projections, activations
    CORE_ATTENTION = "core_attn"
    MLP = "mlp"  # light, and MLPs
    EXPERTS = "moe"  # light, MLPs and experts


class LayerDivision(enum.Enum):
    """Which pipelines may divide the layers, where no split of layers is given."""

    EQUAL = "equal"  # every chunk has as many layers
    WITH_ENDS = "with_ends"  # or has once the embedding and the loss count as a layer each
    UNEVEN = "uneven"  # or the first and the last chunk have fewer
    EVEN = "even"  # any: as even as can be, the ends the emptiest


Split = tuple[int, ...]  # the layers of every virtual stage


class AttentionKernel(enum.Enum):
    """The kernel of the attention core, which no command line implies: a recipe must name it."""

    CUDNN = "cudnn"  # keeps statistics instead of scores
    FLASH = "flash"  # also a second copy of its output
    UNFUSED = "unfused"  # keeps the scores


class ContextExchange(enum.Enum):
    """How context ranks see the whole sequence; in a plan, the number of the member from 0."""

    ALL_TO_ALL = "all-to-all"  # sequence is exchanged for heads; keeps a second output
    RING = "ring"  # keys and values go round, beside the attention


EXCHANGES = tuple(member.value for member in ContextExchange)


class CrossEntropy(enum.Enum):
    """The kernel of the loss."""

    FUSED = "fused"
    VOCABULARY_PARALLEL = "vocabulary_parallel"
    NATIVE = "native"
    EAGER = "eager"


class ExpertWeighting(enum.Enum):
    """Where the router's probability multiplies an expert's result."""

    FUSED = "fused"  # inside the activation
    SEPARATE = "separate"  # an operation of its own, which keeps its input


class Adapters(enum.Enum):
    """Which matrices of a layer have adapters beside them, where the rest is frozen (LoRA)."""

    ALL = "all"  # of attention, recurrence, MLPs and every expert
    QKV = "qkv"  # into attention or a recurrence, as measured runs of NVIDIA have it


@dataclasses.dataclass(frozen=True)
class TrainingRecipe(Recipe):
    """The structural choices of a training step; a named model brings its own."""

    schedule: Schedule = Schedule.ONE_F_ONE_B
    selective: Selective | frozenset[Module] = dataclasses.field(  # or those parts themselves
        default=Selective.LIGHT, metadata={"elsewhere": "modules", "several": Module}
    )
    attention_kernel: AttentionKernel = AttentionKernel.CUDNN
    context_exchange: ContextExchange | None = None  # of every plan; None: each plan says its own
    cross_entropy: CrossEntropy = CrossEntropy.FUSED
    expert_weighting: ExpertWeighting = ExpertWeighting.FUSED
    adapters: Adapters = Adapters.ALL  # if the inputs have a rank
    layer_division: LayerDivision | Split = LayerDivision.UNEVEN  # or the layers themselves


def exchange_of(recipe: TrainingRecipe, exchange: Number) -> Number:
    """Return how context ranks exchange: as the recipe says for every plan, else as plans say."""
    fixed = recipe.context_exchange
    return exchange if fixed is None else float(EXCHANGES.index(fixed.value))


# ---- What is computed again ---------------------------------------------------------------------


def modules_of(recipe: TrainingRecipe) -> frozenset[Module]:
    """Return the parts of a layer that a recipe computes again; parts stand for themselves.

    Where several parts are chosen by one name, the core of attention is among them only if the
    attention kernel keeps scores: with the others its recomputation would free nothing.
    """
    if not isinstance(recipe.selective, Selective):
        return recipe.selective
    keeps = recipe.attention_kernel is AttentionKernel.UNFUSED
    return MODULES[recipe.selective] | ({Module.CORE_ATTENTION} if keeps else set())


_LIGHT = frozenset([Module.LAYERNORM, Module.LATENT_PROJECTION, Module.EXPERT_ACTIVATION])
_MLP = _LIGHT | {Module.MLP, Module.SHARED_EXPERTS}
MODULES: dict[Selective, frozenset[Module]] = {  # beside scores that the attention kernel keeps
    Selective.LIGHT: _LIGHT,
    Selective.CORE_ATTENTION: frozenset([Module.CORE_ATTENTION]),
    Selective.MLP: _MLP,
    Selective.EXPERTS: _MLP | {Module.EXPERTS},
}
