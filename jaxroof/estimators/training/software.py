"""What a framework does in the steps of a plan, as numbers.

Source: docs/models/training_step_today.md, section 1 (the recipe) and section 9 (its values).
"""

from jaxroof.estimators.training.inputs import Framework, TrainingInputs, TrainingPlan
from jaxroof.estimators.training.recipe import AttentionKernel, CrossEntropy, TrainingRecipe
from jaxroof.formulas.arithmetic import where
from jaxroof.records import Number, quantity, record, units

DEDUPLICATED = 2025.6  # year from which dispatchers send a token once to a rank
CAPTURED = 2026.4  # year from which expert layers are captured in a graph
LOSS_BYTES = {  # moved for a logit, forward and backward
    CrossEntropy.FUSED: 12.0,
    CrossEntropy.NATIVE: 32.0,
    CrossEntropy.EAGER: 32.0,
    CrossEntropy.VOCABULARY_PARALLEL: 52.0,
}


def _flag(doc: str) -> Number:
    return quantity("1", doc, zero=True, most=1.0)


@record
class Software(Framework):
    """What a framework does in the steps of a plan: its own habits, and what the plan asks for."""

    flash: Number = _flag("Whether attention is one kernel (0: products and a softmax).")
    sequence_parallel: Number = _flag("Whether tensor ranks share the tokens of norms.")
    zero_stage: Number = quantity(
        "1", "ZeRO stage; 2 and 3 are FSDP by layer.", zero=True, most=3.0
    )
    gradient_bytes: Number = quantity("B", "Bytes of a reduced gradient.")
    loss_bytes: Number = quantity("B", "Bytes moved for a logit of the loss.")
    recompute_full: Number = _flag("Share of a layer that is computed again.")
    recompute_selective: Number = _flag("Share of the recipe's modules that is computed again.")
    dedup: Number = _flag("Whether a token is sent once to a rank with several of its experts.")
    graph: Number = _flag("Whether expert layers are captured in a graph.")


def software_of_plan(
    inputs: TrainingInputs, plan: TrainingPlan, recipe: TrainingRecipe
) -> Software:
    """Return a software as it runs plans: what they shard and recompute, kernels of the recipe."""
    framework = inputs.software
    own = {name: getattr(framework, name) for name in units(Framework)}
    return Software(
        **own,
        flash=float(recipe.attention_kernel is not AttentionKernel.UNFUSED),
        sequence_parallel=plan.sequence_parallel,
        zero_stage=plan.zero_stage,
        gradient_bytes=inputs.states.reduce_bytes,
        loss_bytes=LOSS_BYTES[recipe.cross_entropy],
        recompute_full=where(plan.recompute > 1.5, framework.repeated, 0.0),
        recompute_selective=where(plan.recompute == 1.0, 1.0, 0.0),
        dedup=where(framework.year > DEDUPLICATED, 1.0, 0.0),
        graph=where(framework.year > CAPTURED, 1.0, 0.0),
    )
