"""Structural choices that decide what a training step keeps in memory.

Source: docs/models/parameters_flops_memory.md, sections 4.5 to 4.7 and 10.3.
"""

import dataclasses
import enum
from typing import Any, NamedTuple

from jaxroof.records import Number


class Schedule(enum.Enum):
    """Who runs which microbatch when; 1F1B is interleaved where a rank has several chunks."""

    ONE_F_ONE_B = "1f1b"
    GPIPE = "gpipe"
    ZB_H1 = "zb-h1"
    DUALPIPE = "dualpipe"

    ELSEWHERE = enum.nonmember(  # names of what other fields say
        {"interleaved": "interleaving is vp, of the plan; expected 1f1b, with vp of 2 or more"}
    )


class Recompute(enum.Enum):
    """Which activations are computed again in the backward pass."""

    NONE = "none"
    SELECTIVE = "selective"  # those of the recipe's modules
    FULL = "full"  # all but the input of a layer


class Module(enum.Enum):
    """A part of a layer that selective recomputation computes again."""

    LAYERNORM = "layernorm"
    CORE_ATTENTION = "core_attn"
    LATENT_PROJECTION = "mla_up_proj"
    MLP = "mlp"
    SHARED_EXPERTS = "shared_experts"
    EXPERTS = "moe"
    EXPERT_ACTIVATION = "moe_act"


class Repeated(NamedTuple):
    """What the recomputation of a module takes from memory, and what it does again for it."""

    drops: tuple[str, ...]  # terms of ``layer_activations``
    repeats: tuple[str, ...]  # operations and messages of ``layer_work``


_SHARED = Repeated(
    ("shared_expert",), ("shared_up", "shared_activation", "shared_down", "shared_messages")
)
REPEATED: dict[Module, Repeated] = {
    Module.LAYERNORM: Repeated(("norm_outputs",), ("norms",)),
    # the scores, not the statistics
    Module.CORE_ATTENTION: Repeated(("attention_scores",), ("attention", "context")),
    # queries, keys and values, with latent attention only
    Module.LATENT_PROJECTION: Repeated((), ("query_up", "key_value_up")),
    Module.MLP: Repeated(("mlp",), ("up", "activation", "down", "mlp_messages")),
    Module.SHARED_EXPERTS: _SHARED,
    Module.EXPERTS: Repeated(
        (*_SHARED.drops, "routed", "routed_outputs", "router"),
        (
            *_SHARED.repeats,
            *("router", "router_scores", "permutation", "exchange", "expert_messages"),
            *("routed_up", "routed_activation", "routed_down", "routed_cast"),
        ),
    ),
    Module.EXPERT_ACTIVATION: Repeated(("routed_outputs",), ("routed_activation",)),
}


def repeats(modules: frozenset[Module]) -> list[str]:
    """Return the operations and messages that recomputing some modules repeats, each once."""
    return sorted({name for module in modules for name in REPEATED[module].repeats})


class LayerDivision(enum.Enum):
    """Which pipelines may divide the layers, where no split of layers is given."""

    EQUAL = "equal"  # every chunk has as many layers
    WITH_ENDS = "with_ends"  # or has once the embedding and the loss count as a layer each
    UNEVEN = "uneven"  # or the first and the last chunk have fewer
    EVEN = "even"  # any: as even as can be, the ends the emptiest


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


@dataclasses.dataclass(frozen=True)
class MemoryRecipe:
    """The structural choices of a training step that its memory depends on."""

    schedule: Schedule = Schedule.ONE_F_ONE_B
    recompute: Recompute = Recompute.NONE
    modules: frozenset[Module] = frozenset()  # computed again if the recomputation is selective
    attention_kernel: AttentionKernel = AttentionKernel.CUDNN
    context_exchange: ContextExchange | None = None  # of every plan; None: each plan says its own
    cross_entropy: CrossEntropy = CrossEntropy.FUSED
    expert_weighting: ExpertWeighting = ExpertWeighting.FUSED
    layer_division: LayerDivision = LayerDivision.EQUAL
    layer_split: tuple[int, ...] = ()  # layers of every virtual stage; empty: as even as can be

    def recomputes(self, module: Module) -> bool:
        """Return whether selective recomputation computes a part of a layer again."""
        return self.recompute is Recompute.SELECTIVE and module in self.modules


def exchange_of(recipe: Any, exchange: Number) -> Number:
    """Return how context ranks exchange: as the recipe says for every plan, else as plans say."""
    fixed = recipe.context_exchange
    return exchange if fixed is None else float(EXCHANGES.index(fixed.value))


LOGIT_BYTES = {  # bytes of one logit at the start of the backward pass
    CrossEntropy.FUSED: 2.0,  # the gradient overwrites the bf16 logits
    CrossEntropy.VOCABULARY_PARALLEL: 6.0,  # bf16, and the fp32 softmax that becomes the gradient
    CrossEntropy.NATIVE: 10.0,  # compiled, not in place; 8 to 18 by release
    CrossEntropy.EAGER: 14.0,  # bf16, log-softmax, the loss's gradient and its input's in fp32
}
