"""One machine whose best plan is to be explained."""

import dataclasses
from typing import Any

import numpy as np

from jaxroof.analyses.resources import Resources
from jaxroof.engine.grid.dataset import provenance
from jaxroof.estimator import Estimator


@dataclasses.dataclass(frozen=True, eq=False)
class Task:
    """One machine to explain: checked inputs and recipe without a plan, and its resources."""

    estimator: Estimator
    inputs: Any
    recipe: Any
    resources: Resources

    @property
    def names(self) -> tuple[str, ...]:
        """Return the names of the resources that take time."""
        return tuple(self.resources.limits)

    def planned(self, plan: Any) -> Any:
        """Return the inputs with a plan made from a mapping of its fields."""
        assert self.estimator.plan is not None
        fields = {f: np.asarray(plan[f], float) for f in self.estimator.plan_fields}
        return dataclasses.replace(self.inputs, plan=self.estimator.plan(**fields))

    @property
    def any_plan(self) -> Any:
        """Return the inputs with an arbitrary plan."""
        return self.planned(dict.fromkeys(self.estimator.plan_fields, 1.0))

    @property
    def about(self) -> dict[str, str]:
        """Return the attributes needed to repeat the run."""
        return provenance(self.estimator, self.inputs, self.recipe)
