"""The seam: what an estimator tells the engine."""

import dataclasses
import inspect
from collections.abc import Callable, Collection, Mapping
from typing import Any, NamedTuple

import jax
import numpy as np

from jaxroof.errors import NotGiven
from jaxroof.missing import naming_all
from jaxroof.records import answering
from jaxroof.settings import choices_of, settle


class Candidates(NamedTuple):
    """The legal plans of one question, a column of whole numbers a field, and what was refused."""

    plans: Mapping[str, np.ndarray]
    refused: Mapping[str, int]


class Sizing(NamedTuple):
    """How large a program points need, of an estimator whose loops have lengths of their own."""

    of: Callable[[Any], np.ndarray]  # inputs -> what each of their points needs, [points, sizes]
    fit: Callable[[Any, Any], Any]  # a recipe and the most of each size -> the recipe that holds it
    exact: Callable[[Any, Any], Any]  # the same for these points alone: loops of known length
    batch: Callable[[Any], int]  # a recipe -> points of one call: enough for a core, alike


@dataclasses.dataclass(frozen=True, eq=False)
class Estimator:
    """A pure function from a record of inputs to a record of results, in two storeys.

    ``evaluate(inputs, recipe)`` calls every part with the inputs less their plan and with the plan
    fields that its keyword-only arguments name, then ``step(inputs, recipe, **parts)``. Only those
    fields reach a part, so the engine may evaluate it once for each distinct set of them. An
    estimator of one function is ``Estimator(step=f)``; the rest is for those that are searched.
    """

    step: Callable[..., Any]
    inputs: type[Any]
    plan: type[Any] | None = None  # the record of what a search chooses
    recipe: Any = None  # the default recipe: a frozen, hashable record of structural choices
    parts: Mapping[str, Callable[..., Any]] = dataclasses.field(default_factory=dict)
    candidates: Callable[[Any, Any], Candidates] | None = None
    structural: tuple[
        str, ...
    ] = ()  # paths that `candidates` reads: an axis there lists plans anew
    objective: str = ""  # the result that a search improves unless told otherwise
    need: str = ""  # the result that must not exceed ...
    limit: Callable[[Any], Any] | None = None  # ... this, a function of the inputs less their plan
    # plan fields that place a split rather than make another; the need must not depend on them
    placement: tuple[str, ...] = ()
    # every placement of the plan that some inputs hold, a column a placement field
    placements: Callable[[Any, Any], Mapping[str, np.ndarray]] | None = None
    # every plan that a study tries, legal or not; those that are legal where it is missing
    tried: Callable[[Any, Any], Mapping[str, np.ndarray]] | None = None
    sizing: Sizing | None = None
    name: str = ""
    # paths of records that have names, and what reads one: "system" -> jaxroof.system; it may
    # return (record, choices): choices of the recipe that come with the name
    names: Mapping[str, Callable[[str], Any]] = dataclasses.field(default_factory=dict)
    # inputs that make sense, for help and for the laws that every estimator obeys
    example: Callable[[], Any] | None = None
    about: str = ""  # the question it answers, in a sentence

    @property
    def plan_fields(self) -> tuple[str, ...]:
        """Return the names of what a search chooses, none for an estimator without plans."""
        return tuple(f.name for f in dataclasses.fields(self.plan)) if self.plan else ()

    def lists_anew(self, path: str) -> bool:
        """Return whether ``candidates`` reads what stands at a dotted path."""
        return any(path == head or path.startswith(f"{head}.") for head in self.structural)

    def resolve(
        self,
        inputs: Any,
        recipe: Any,
        settings: Mapping[str, Any],
        varied: Collection[str] = (),
    ) -> tuple[Any, Any, set[str]]:
        """Return inputs and recipe with settings applied, and which choices someone made.

        Choices that come with a record by name give way to those of ``settings`` and of a recipe
        that is given; those of a record at one of the paths ``varied`` are left to its axis.

        Raises: InputError for an unknown name (with the nearest), a wrong unit or a wrong choice.
        """
        given = {*settings, *(choices_of(recipe) if recipe is not None else ())}
        recipe = self.recipe if recipe is None else recipe
        return *settle(inputs, recipe, settings, self.names, given, varied), given

    def evaluate(self, inputs: Any, recipe: Any = None) -> Any:
        """Return the results for inputs whose leaves broadcast: one plan, or a million.

        Raises: InputError that names the numbers which the answer needs and the inputs lack.

        >>> import jax.numpy as jnp
        >>> square = Estimator(step=lambda inputs, recipe: inputs * inputs, inputs=float)
        >>> float(square.evaluate(jnp.float64(3.0)))
        9.0
        """
        if self.plan is not None and inputs.plan is None:
            text = f"expected its fields, such as plan.{self.plan_fields[0]}"
            raise NotGiven(f"plan: not given; {text}", ["plan"])
        recipe = self.fitted(inputs, self.recipe if recipe is None else recipe)
        with naming_all(self, inputs, recipe):
            inputs = answering(inputs)
            return self.step(inputs, recipe, **self.evaluate_parts(inputs, recipe))

    def fitted(self, inputs: Any, recipe: Any) -> Any:
        """Return the recipe whose program holds the points of the inputs, where they are known."""
        if self.sizing is None:
            return recipe
        try:
            most = self.sizing.of(inputs).max(axis=0)
        except jax.errors.TracerArrayConversionError:  # whoever traces them sizes the program
            return recipe
        return self.sizing.exact(self.sizing.fit(recipe, most), most)

    def evaluate_parts(self, inputs: Any, recipe: Any) -> dict[str, Any]:
        """Return every part's results, each from the plan fields that it names and no others."""
        if not self.parts:
            return {}
        inputs = answering(inputs)
        bare = dataclasses.replace(inputs, plan=None)
        return {
            name: part(bare, recipe, **{f: getattr(inputs.plan, f) for f in reads(part)})
            for name, part in self.parts.items()
        }


def reads(part: Callable[..., Any]) -> tuple[str, ...]:
    """Return the plan fields that a part reads: its keyword-only arguments.

    >>> reads(lambda inputs, recipe, *, tensor, data: 0.0)
    ('tensor', 'data')
    """
    parameters = inspect.signature(part).parameters.values()
    return tuple(p.name for p in parameters if p.kind is p.KEYWORD_ONLY)
