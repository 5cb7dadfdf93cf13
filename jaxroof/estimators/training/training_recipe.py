"""Structural choices of a training step of a model of today: the model's and the software's."""

import dataclasses
import enum

from jaxroof.estimators.training.memory_recipe import (
    AttentionKernel,
    ContextExchange,
    CrossEntropy,
    ExpertWeighting,
    LayerDivision,
    MemoryRecipe,
    Module,
    Schedule,
)
from jaxroof.estimators.training.recipe import Recipe


class Selective(enum.Enum):
    """The parts of a layer that a plan with selective recomputation computes again."""

    LIGHT = "light"  # what takes no large product: norms, kept scores, up-projections, activations
    CORE_ATTENTION = "core_attn"
    MLP = "mlp"  # light, and MLPs
    EXPERTS = "moe"  # light, MLPs and experts


@dataclasses.dataclass(frozen=True)
class TrainingRecipe(Recipe):
    """The structural choices of a training step; a named model brings its own.

    >>> TrainingRecipe().schedule
    <Schedule.ONE_F_ONE_B: '1f1b'>
    """

    schedule: Schedule = Schedule.ONE_F_ONE_B
    selective: Selective | frozenset[Module] = dataclasses.field(  # or those parts themselves
        default=Selective.LIGHT, metadata={"elsewhere": "modules"}
    )
    attention_kernel: AttentionKernel = AttentionKernel.CUDNN
    context_exchange: ContextExchange | None = None  # of every plan; None: each plan says its own
    cross_entropy: CrossEntropy = CrossEntropy.FUSED
    expert_weighting: ExpertWeighting = ExpertWeighting.FUSED
    layer_division: LayerDivision = LayerDivision.UNEVEN


def memory_recipe(recipe: TrainingRecipe) -> MemoryRecipe:
    """Return the choices that memory depends on; how much is recomputed is a number of the plan."""
    return MemoryRecipe(
        schedule=recipe.schedule,
        modules=modules_of(recipe),
        attention_kernel=recipe.attention_kernel,
        context_exchange=recipe.context_exchange,
        cross_entropy=recipe.cross_entropy,
        expert_weighting=recipe.expert_weighting,
        layer_division=recipe.layer_division,
    )


def modules_of(recipe: TrainingRecipe) -> frozenset[Module]:
    """Return the parts of a layer that a recipe computes again; parts stand for themselves.

    Where several parts are chosen by one name, the core of attention is among them only if the
    attention kernel keeps scores: with the others its recomputation would free nothing.
    """
    selective = recipe.selective
    if not isinstance(selective, Selective):
        return selective
    if recipe.attention_kernel is AttentionKernel.UNFUSED:
        return MODULES[selective] | {Module.CORE_ATTENTION}
    return MODULES[selective]


_LIGHT = frozenset([Module.LAYERNORM, Module.LATENT_PROJECTION, Module.EXPERT_ACTIVATION])
_MLP = _LIGHT | {Module.MLP, Module.SHARED_EXPERTS}
MODULES: dict[Selective, frozenset[Module]] = {  # beside scores that the attention kernel keeps
    Selective.LIGHT: _LIGHT,
    Selective.CORE_ATTENTION: frozenset([Module.CORE_ATTENTION]),
    Selective.MLP: _MLP,
    Selective.EXPERTS: _MLP | {Module.EXPERTS},
}
