"""The step time of the plans that `fit` weighs: that of `training`, as a search has it."""

import dataclasses
from collections.abc import Mapping
from typing import Any

import numpy as np

from jaxroof.analyses.fit_question import PATHS, unchecked_question
from jaxroof.analyses.plan_question import Filled, filled_plan
from jaxroof.analyses.plan_question import Question as Search
from jaxroof.analyses.plan_recomputation import SELECTIVE
from jaxroof.catalog.lookup import as_reported
from jaxroof.estimators.training.inputs import TrainingInputs
from jaxroof.estimators.training.recipe import Selective, TrainingRecipe
from jaxroof.estimators.training.step import training
from jaxroof.records import with_named_absences
from jaxroof.settings import choose


def step_times(inputs: TrainingInputs, recipe: TrainingRecipe) -> np.ndarray:
    """Return the step time of every plan of the inputs [s], NaN where the chip is not calibrated.

    It is what the estimator ``training`` has of the same plan, its stages divided as a search
    divides them.
    """
    shape = np.shape(inputs.plan.data if inputs.plan else 1.0)
    if inputs.system.chip is None:
        return np.full(shape, np.nan)
    here = with_named_absences(inputs)
    with np.errstate(all="ignore"):
        parts = training.evaluate_parts(here, recipe)
        time: Any = training.result("step_time", here, recipe, parts)
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
    if not {"gpus", "plan.data"} & asked.given or isinstance(asked.recipe.layer_division, tuple):
        return None
    inputs, recipe = asked.inputs, asked.recipe
    every: Any = inputs.plan
    fields = {path.removeprefix("plan."): path for path in PATHS.values() if "." in path}
    own = {name: getattr(every, name) for name, path in fields.items() if path in asked.given}
    if "recompute" in asked.given:
        own["recompute"] = every.recompute
    if not recipe.selective:  # what a search computes again where it computes some
        recipe = choose(dataclasses.replace(recipe, selective=Selective.LIGHT), selective)
    searched = dataclasses.replace(inputs, plan=None, gpus=None, system=as_reported(inputs.system))
    found = Search(searched, recipe, (), float(asked.capacity))
    return filled_plan(found, float(asked.inputs.gpus or 1.0), own, training)
