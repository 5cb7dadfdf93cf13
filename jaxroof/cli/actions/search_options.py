"""The options of the commands that search for the plans of a training step, parsed when read."""

import dataclasses
from typing import Any

from jaxroof.catalog.lookup import model, system
from jaxroof.cli.actions.arguments import PLAN_FIELDS, SHORT, parse_count, parse_settings
from jaxroof.cli.actions.console import OPTION_OF
from jaxroof.engine.search.constraints import Constraint, constraints
from jaxroof.estimators.published.inputs import Inputs


@dataclasses.dataclass(frozen=True, kw_only=True)
class QuestionOptions:
    """One model on one system, split over some accelerators: the options as they were typed.

    Its properties raise an InputError for a text that cannot be read.
    """

    model_name: str
    system_name: str
    number_format: str | None
    gpus: str
    batch: str
    split: str
    where: str
    sets: tuple[str, ...]
    output: str | None

    @property
    def inputs(self) -> Inputs:
        """Return the inputs with the records of the catalogue, before any settings."""
        machine = system(self.system_name, self.number_format)
        return Inputs(model=model(self.model_name), system=machine)

    @property
    def sequences(self) -> int:
        """Return the sequences of one step."""
        return parse_count("--batch", self.batch)

    @property
    def sizes(self) -> list[int]:
        """Return the numbers of accelerators."""
        return [parse_count("--gpus", text) for text in self.gpus.split(",")]

    @property
    def settings(self) -> dict[str, Any]:
        """Return the settings of every size; ``--set`` changes what the model's record brings."""
        chosen = {"model": self.model_name, "global_batch": self.sequences, "split": self.split}
        return chosen | parse_settings(self.sets, OPTION_OF)

    @property
    def rules(self) -> tuple[Constraint, ...]:
        """Return the constraints on the plans."""
        return constraints(self.where, PLAN_FIELDS, SHORT)


@dataclasses.dataclass(frozen=True, kw_only=True)
class SearchOptions(QuestionOptions):
    """The options of ``search``."""

    top: int
    placements: bool
    mine: str | None
    within: str
    objective: str | None
    everything: bool
