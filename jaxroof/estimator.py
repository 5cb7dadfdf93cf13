"""The seam: what an estimator tells the engine."""

import contextlib
import dataclasses
import inspect
import math
from collections.abc import Callable, Collection, Iterable, Mapping
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from jaxroof.errors import InputError, NotGiven, refusal
from jaxroof.missing import naming_all
from jaxroof.records import get_at, value_or, with_named_absences
from jaxroof.settings import apply_settings, choices_of

FEWEST = 16  # placements that a program is compiled for
TIE = 1e-12  # objectives this close count as equal; the leaner plan wins, then the smaller one


class Candidates(NamedTuple):
    """The legal plans of one question, a column of whole numbers a field, and what was refused."""

    plans: Mapping[str, np.ndarray]
    refused: Mapping[str, int]


class ProgramSizes(NamedTuple):
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
    # plan fields that place a split rather than make another, in the order that they are printed
    # in; the need must not depend on them
    placement: tuple[str, ...] = ()
    # the plan fields that a recipe does not have: they are 1 in every plan, and not printed
    unused: Callable[[Any], Iterable[str]] | None = None
    machine: str = "system"  # where in the inputs the machine stands, a record or a dotted path
    # every placement of the plan that some inputs hold, or of each of their plans, a column a
    # placement field, [*plans, placements]; those whose record gives none are placed best
    placements: Callable[[Any, Any], Mapping[str, np.ndarray]] | None = None
    # every plan that a study tries, legal or not; those that are legal where it is missing
    tried: Callable[[Any, Any], Mapping[str, np.ndarray]] | None = None
    # numbers of the inputs that, where they are given, are the product of fields of the plan
    products: Mapping[str, tuple[str, ...]] = dataclasses.field(default_factory=dict)
    sizing: ProgramSizes | None = None
    name: str = ""
    former_name: str = ""  # what files of earlier versions call it: their sweeps go on
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

    @property
    def short_names(self) -> dict[str, str]:
        """Return what people may type for the fields of a plan: symbols, and words that differ."""
        named: dict[str, str] = {}
        for key in ("symbol", "words"):
            for field in dataclasses.fields(self.plan) if self.plan else ():
                if field.metadata[key] and (key == "symbol" or field.name not in self.placement):
                    named.setdefault(field.metadata[key], field.name)
        return {short: name for short, name in named.items() if short not in self.plan_fields}

    def unused_fields(self, recipe: Any) -> list[str]:
        """Return the plan fields that a recipe does not have, in order."""
        return sorted(self.unused(recipe)) if self.unused else []

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
        return *apply_settings(inputs, recipe, settings, self.names, given, varied), given

    def evaluate(self, inputs: Any, recipe: Any = None) -> Any:
        """Return the results for inputs whose leaves broadcast: one plan, or a million.

        A plan without a placement is placed best. Raises: InputError that names the numbers which
        the answer needs and the inputs lack, or one that its plan contradicts.

        >>> import jax.numpy as jnp
        >>> square = Estimator(step=lambda inputs, recipe: inputs * inputs, inputs=float)
        >>> float(square.evaluate(jnp.float64(3.0)))
        9.0
        """
        if self.plan is not None and inputs.plan is None:
            text = f"expected its fields, such as plan.{self.plan_fields[0]}"
            raise NotGiven(f"plan: not given; {text}", ["plan"])
        self.refuse_contradictions(inputs)
        recipe = self.sized_recipe(inputs, self.recipe if recipe is None else recipe)
        with naming_all(self, inputs, recipe):
            inputs = with_named_absences(self.placed(inputs, recipe))
            return self.step(inputs, recipe, **self.evaluate_parts(inputs, recipe))

    def sized_recipe(self, inputs: Any, recipe: Any) -> Any:
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
        inputs = with_named_absences(inputs)
        bare = dataclasses.replace(inputs, plan=None)
        return {
            name: part(bare, recipe, **{f: getattr(inputs.plan, f) for f in reads(part)})
            for name, part in self.parts.items()
        }

    def contradictions(self, inputs: Any) -> np.ndarray:
        """Return where the plan contradicts a number that ``products`` names; traced ones pass."""
        plan, found = getattr(inputs, "plan", None), np.zeros((), bool)
        for path, fields in self.products.items() if plan is not None else ():
            number = value_or(get_at(inputs, path), None)
            if number is None:
                continue
            with contextlib.suppress(jax.errors.TracerArrayConversionError):
                product = math.prod(np.asarray(getattr(plan, field)) for field in fields)
                found = found | (np.asarray(number) != product)
        return np.asarray(found)

    def refuse_contradictions(self, inputs: Any) -> None:
        """Check that the plan agrees with the numbers that are products of its fields.

        Raises: InputError that names the first that does not.
        """
        wrong = self.contradictions(inputs)
        if not wrong.any():
            return
        place = tuple(np.argwhere(wrong)[0])

        def value(held: Any) -> float:
            return float(np.broadcast_to(np.asarray(held), wrong.shape)[place])

        for path, fields in self.products.items():
            number = value(get_at(inputs, path))
            degrees = {field: value(getattr(inputs.plan, field)) for field in fields}
            product = math.prod(degrees.values())
            if number != product:
                said = " x ".join(f"{f} {d:.12g}" for f, d in degrees.items() if d != 1) or "1"
                what = f"not the product of the plan's degrees, given {number:.12g}"
                raise refusal(path, f"{what}; expected {said} = {product:.12g}")

    def is_placed(self, inputs: Any) -> bool:
        """Return whether inputs say where their plan lies, or have none that can be placed."""
        plan = getattr(inputs, "plan", None)
        if plan is None or self.placements is None:
            return True
        return any(value_or(getattr(plan, field), None) is not None for field in self.placement)

    def with_placement(self, inputs: Any, columns: Mapping[str, Any]) -> Any:
        """Return inputs with other values of the fields that place their plan."""
        return dataclasses.replace(inputs, plan=dataclasses.replace(inputs.plan, **columns))

    def placed(
        self, inputs: Any, recipe: Any = None, first: Callable[..., Any] | None = None
    ) -> Any:
        """Return inputs whose plan has a placement: its own, or the best where it has none.

        The best has the least objective, whatever fits; ties go to the smaller placement. Beside a
        field that is given the others are 1. ``first`` is ``first_best`` or a compiled one.
        Raises: InputError where the degrees of a plan without placement are traced.
        """
        plan = getattr(inputs, "plan", None)
        if self.is_placed(inputs):
            fields = self.placement if plan is not None and self.placements is not None else ()
            lacking = [f for f in fields if value_or(getattr(plan, f), None) is None]
            one = dict.fromkeys(lacking, np.float64(1.0))
            return self.with_placement(inputs, one) if lacking else inputs
        recipe = self.recipe if recipe is None else recipe
        with naming_all(self, inputs, recipe):
            columns = self._placements(inputs, recipe)
        if next(iter(columns.values())).shape[-1] == 1:  # nothing to choose
            only = {field: column[..., 0] for field, column in columns.items()}
            return self.with_placement(inputs, only)
        wide = jax.tree.map(lambda leaf: leaf[..., None] if np.ndim(leaf) else leaf, inputs)
        best = (first or first_best)(self, recipe, self.with_placement(wide, columns))[..., None]
        take = np.take_along_axis if isinstance(best, np.ndarray) else jnp.take_along_axis
        shape = best.shape[:-1]
        chosen = {
            field: take(np.broadcast_to(column, (*shape, column.shape[-1])), best, -1)[..., 0]
            for field, column in columns.items()
        }
        return self.with_placement(inputs, chosen)

    def _placements(self, inputs: Any, recipe: Any) -> dict[str, np.ndarray]:
        """Return every placement along a last dimension behind those of the inputs.

        Where there are several they are as many as a power of two: few shapes, few programs.
        """
        assert self.placements is not None
        try:
            listed = self.placements(with_named_absences(inputs), recipe)
        except jax.errors.TracerArrayConversionError:
            fields = ", ".join(f"plan.{field}" for field in self.placement)
            what = f"a traced plan cannot be placed; expected {fields}"
            raise InputError(f"plan: {what}") from None
        rank = max((np.ndim(leaf) for leaf in jax.tree.leaves(inputs)), default=0)
        found = {}
        for field, column in listed.items():
            count = column.shape[-1]
            size = max(FEWEST, 1 << (count - 1).bit_length()) if count > 1 else 1
            rows = column.astype(np.float64).reshape(-1, count)
            rows = np.pad(rows, [(0, 0), (0, size - count)], "edge")
            before = (1,) * (rank + 1 - column.ndim)
            found[field] = rows.reshape(*before, *column.shape[:-1], size)
        return found


def first_best(estimator: Estimator, recipe: Any, inputs: Any) -> Any:
    """Return which placement, of those along the last dimension, is the best at each point."""
    report = estimator.evaluate(inputs, recipe)
    name, fields = estimator.objective, getattr(report, "__dataclass_fields__", {})
    sign = -1.0 if name in fields and fields[name].metadata.get("better") == "higher" else 1.0
    value = jnp.asarray(report[name] if isinstance(report, Mapping) else getattr(report, name))
    columns = (jnp.shape(getattr(inputs.plan, field)) for field in estimator.placement)
    value = sign * jnp.broadcast_to(value, np.broadcast_shapes(value.shape, *columns))
    least = jnp.min(value, axis=-1, keepdims=True)
    return jnp.argmax(value <= least + TIE * jnp.abs(least), axis=-1)


def reads(part: Callable[..., Any]) -> tuple[str, ...]:
    """Return the plan fields that a part reads: its keyword-only arguments.

    >>> reads(lambda inputs, recipe, *, tensor, data: 0.0)
    ('tensor', 'data')
    """
    parameters = inspect.signature(part).parameters.values()
    return tuple(p.name for p in parameters if p.kind is p.KEYWORD_ONLY)
