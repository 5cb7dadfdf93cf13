"""The options of the commands that search for the plans of a training step, parsed when read."""

import dataclasses
import functools
import pathlib
from typing import Any

from jaxroof.analyses.compare import system_of
from jaxroof.cli.actions.arguments import parse_settings
from jaxroof.cli.actions.console import OPTION_OF
from jaxroof.cli.actions.question_options import PlansQuestion
from jaxroof.engine.search.constraints import Constraint
from jaxroof.engine.search.problem import constraints_of
from jaxroof.errors import unknown
from jaxroof.estimator import Estimator
from jaxroof.estimators.plugins import estimator_of
from jaxroof.estimators.published.step import published
from jaxroof.estimators.training.step import training

SEARCHED = {"training": training, "published": published}  # the first is the default


def searched(name: str) -> Estimator:
    """Return an estimator of a training step by name.

    Raises: InputError for another name, with the nearest.
    """
    if name not in SEARCHED:
        raise unknown("--estimator", name, "estimator of a training step", SEARCHED)
    return SEARCHED[name]


@dataclasses.dataclass(frozen=True, kw_only=True)
class QuestionOptions(PlansQuestion):
    """A question about plans of a training step, that one of two estimators answers."""

    estimator: str
    number_format: str | None
    split: str

    @functools.cached_property
    def asked_of(self) -> Estimator:
        """Return the estimator that answers."""
        return searched(self.estimator)

    @property
    def settings(self) -> dict[str, Any]:
        """Return the settings of every size."""
        named: dict[str, Any] = {"model": self.model_name, "system": self.system_name}
        if self.asked_of is published:
            machine = system_of(published, self.system_name, self.number_format)
            named |= {"system": machine, "split": self.split}
        return {**named, "global_batch": self.sequences, **parse_settings(self.sets, OPTION_OF)}

    @property
    def rules(self) -> tuple[Constraint, ...]:
        """Return the constraints on the plans."""
        return constraints_of(self.asked_of, self.where)

    @property
    def question(self) -> str:
        """Return the model, the accelerators and the system in words."""
        counts = ", ".join(f"{size:,}" for size in self.sizes)
        split = f", {self.split}" if self.asked_of is published else ""
        return f"{self.model_name} on {counts} x {self.system_name}{split}"


@dataclasses.dataclass(frozen=True, kw_only=True)
class SearchOptions(QuestionOptions):
    """The options of ``search``."""

    top: int
    placements: bool
    mine: str | None
    within: str
    objective: str | None
    everything: bool

    @functools.cached_property
    def asked_of(self) -> Estimator:
        """Return the estimator that answers: of a training step, or one's own as MODULE:NAME."""
        if ":" in self.estimator:
            return estimator_of(self.estimator, pathlib.Path.cwd(), trust=True)
        return searched(self.estimator)

    @property
    def _of_a_step(self) -> bool:
        return self.asked_of.name in SEARCHED

    @property
    def sizes(self) -> list[int]:
        """Return the numbers of accelerators, none where no such number is given."""
        return [] if self.gpus is None else super().sizes

    @property
    def settings(self) -> dict[str, Any]:
        """Return the settings of every size."""
        if self._of_a_step:
            return super().settings
        batch = None if self.batch is None else self.sequences
        named = {"model": self.model_name, "system": self.system_name, "global_batch": batch}
        given = parse_settings(self.sets, OPTION_OF)
        return {**{name: value for name, value in named.items() if value}, **given}

    @property
    def question(self) -> str:
        """Return the model, the accelerators and the system in words, or what is asked."""
        if self._of_a_step:
            return super().question
        return self.asked_of.about.rstrip("?") or self.asked_of.name
