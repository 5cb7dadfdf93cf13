"""The step time of the plans that `fit` weighs: that of `training`, as a search has it."""

import dataclasses
from typing import Any

import numpy as np

from jaxroof.analyses.fit_question import Question
from jaxroof.catalog.architecture import Architecture
from jaxroof.estimators.training.inputs import TrainingInputs, TrainingPlan
from jaxroof.estimators.training.memory_inputs import MemoryInputs, StateSizes
from jaxroof.estimators.training.memory_recipe import MemoryRecipe, Recompute
from jaxroof.estimators.training.step import training
from jaxroof.estimators.training.training_recipe import TrainingRecipe
from jaxroof.records import units, with_named_absences

LEVEL = {Recompute.NONE: 0.0, Recompute.SELECTIVE: 1.0, Recompute.FULL: 2.0}


def step_times(asked: Question, inputs: MemoryInputs, recipe: MemoryRecipe) -> np.ndarray:
    """Return the step time of every plan of the inputs [s], NaN where the chip is not calibrated.

    It is what the estimator ``training`` has of the same plan, its stages divided as a search
    divides them.
    """
    shape = np.shape(inputs.plan.data)
    if asked.system.chip is None:
        return np.full(shape, np.nan)
    here, chosen = (
        with_named_absences(_training_inputs(asked, inputs, recipe)),
        _recipe(asked, recipe),
    )
    with np.errstate(all="ignore"):
        parts = training.evaluate_parts(here, chosen)
        time: Any = training.result("step_time", here, chosen, parts)
    return np.broadcast_to(np.asarray(time, float), shape)


def _training_inputs(asked: Question, inputs: MemoryInputs, recipe: MemoryRecipe) -> TrainingInputs:
    """Return the inputs of a training step whose memory some inputs are of."""
    model = {name: getattr(inputs.model, name) for name in units(Architecture)}
    shared = set(units(TrainingPlan)) & set(units(type(inputs.plan)))
    batch: Any = inputs.global_batch
    return TrainingInputs(
        model=Architecture(**{**model, "sequence": inputs.sequence}),
        system=asked.system,
        global_batch=batch,
        microbatch_group=inputs.plan.microbatch_group,
        early_forward=inputs.plan.early_forward,
        states=StateSizes(**{name: getattr(inputs.states, name) for name in units(StateSizes)}),
        activations=inputs.activations,
        buffers=inputs.buffers,
        plan=TrainingPlan(
            **{name: getattr(inputs.plan, name) for name in shared},
            zero_stage=inputs.states.zero_stage,
            offload_optimizer=inputs.states.offload_optimizer,
            recompute=LEVEL[recipe.recompute],
        ),
        software=asked.framework,
        shared=asked.shared,
    )


def _recipe(asked: Question, recipe: MemoryRecipe) -> TrainingRecipe:
    """Return the choices of a training step whose memory has some choices."""
    names = {field.name for field in dataclasses.fields(TrainingRecipe)}
    both = {name: value for name, value in vars(recipe).items() if name in names - {"recompute"}}
    return TrainingRecipe(**vars(asked.model_recipe), **both, selective=recipe.modules)
