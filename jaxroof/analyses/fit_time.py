"""The step time of the plans that `fit` weighs: that of `training`, as a search has it."""

import dataclasses
from collections.abc import Mapping
from typing import Any

import numpy as np

from jaxroof.analyses.fit_question import PATHS, Question, unchecked_question
from jaxroof.analyses.plan_question import Filled, filled_plan
from jaxroof.analyses.plan_question import Question as Search
from jaxroof.analyses.plan_recomputation import SELECTIVE
from jaxroof.catalog.architecture import Architecture
from jaxroof.catalog.lookup import as_reported
from jaxroof.estimators.training.inputs import TrainingInputs, TrainingPlan
from jaxroof.estimators.training.layer_activations import LEVELS
from jaxroof.estimators.training.memory_inputs import MemoryInputs, StateSizes
from jaxroof.estimators.training.memory_recipe import MemoryRecipe
from jaxroof.estimators.training.step import training
from jaxroof.estimators.training.training_recipe import Selective, TrainingRecipe
from jaxroof.records import units, with_named_absences
from jaxroof.settings import choose


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


def filled_fields(
    *, model: Any, plan: Mapping[str, Any], system: Any, settings: Mapping[str, Any]
) -> Filled | None:
    """Return what a search fills a plan in part with; None where it stays as it is.

    That is where accelerators are not known, or layers are given to stages.
    Raises: InputError for what cannot be read, or is out of range.
    """
    selective = {name: value for name, value in settings.items() if name == SELECTIVE}
    asked = unchecked_question(model=model, plan=plan, system=system, settings=settings)
    if not {"gpus", "plan.data"} & asked.given or asked.recipe.layer_split:
        return None
    inputs = _training_inputs(asked, asked.inputs, asked.recipe)
    every: Any = inputs.plan
    own = {name: getattr(every, name) for name, path in PATHS.items() if path in asked.given}
    if "recompute" in asked.given:
        own["recompute"] = every.recompute
    recipe = _recipe(asked, asked.recipe)
    if not asked.recipe.modules:  # what a search computes again where it computes some
        recipe = choose(TrainingRecipe(**{**vars(recipe), SELECTIVE: Selective.LIGHT}), selective)
    searched = dataclasses.replace(inputs, plan=None, system=as_reported(inputs.system))
    found = Search(searched, recipe, (), float(asked.capacity))
    return filled_plan(found, float(asked.inputs.gpus or 1.0), own, training)


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
            recompute=LEVELS[recipe.recompute],
        ),
        software=asked.framework,
        shared=asked.shared,
    )


def _recipe(asked: Question, recipe: MemoryRecipe) -> TrainingRecipe:
    """Return the choices of a training step whose memory has some choices."""
    names = {field.name for field in dataclasses.fields(TrainingRecipe)}
    both = {name: value for name, value in vars(recipe).items() if name in names - {"recompute"}}
    return TrainingRecipe(**vars(asked.model_recipe), **both, selective=recipe.modules)
