"""The columns of a file of configurations: names, how cells are written and read."""

import dataclasses
import enum
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

import numpy as np

from jaxroof.engine.runs.job import CODE, SweepJob, fingerprint
from jaxroof.records import is_quantity, leaves
from jaxroof.settings import choices_of, former_of, paths_of
from jaxroof.structure import results

LEGAL, REASON, MADE = "legal", "reason", "made_by"
Parse = Callable[[str], Any]


@dataclasses.dataclass(frozen=True, eq=False)
class PlanColumn:
    """A column: how its cells are written and read; a key also has the configurations' values."""

    name: str
    spell: Callable[[Any], str]
    parse: Parse
    expected: str  # what a cell should hold, for errors
    key: Any = None  # of a key: an array, or one value for all
    is_key: bool = False
    dtype: str = ""  # of a result, when it is read back
    former: bool = False  # only in files of earlier versions

    def values(self, some: np.ndarray) -> Sequence[Any]:
        """Return the key's values for some configurations."""
        held = self.key
        return held[some].tolist() if isinstance(held, np.ndarray) else [held] * len(some)

    def read(self, cells: Sequence[str]) -> list[Any]:
        """Return the values of some cells.

        Raises: ValueError or KeyError for a cell that cannot be read.
        """
        if cells.count(cells[0]) == len(cells):  # true of most columns
            return [self.parse(cells[0])] * len(cells)
        if self.dtype == "float64":
            return [self.parse(cell) for cell in cells]
        known = {cell: self.parse(cell) for cell in {*cells}}  # few distinct cells
        return [known[cell] for cell in cells]

    def cells(self, values: Iterable[Any]) -> list[str]:
        """Return values as the text of their cells."""
        known: dict[Any, str] = {}
        if not self.is_key:
            return [self.spell(value) for value in values]
        return [known.get(v) or known.setdefault(v, self.spell(v)) for v in values]


def plan_columns(asked: SweepJob, shapes: Any, records: Mapping[str, str]) -> list[PlanColumn]:
    """Return the columns of a sweep's configurations; those that a reader needs come first.

    The set of columns depends only on the estimator, so different grids can share a file. It has
    the names of the records, every number of the inputs, every choice of the recipe, the results,
    and the estimator and version that made them. Arguments: ``shapes`` are the shapes of a point's
    results; ``records`` has the names of the records as the question gives them.
    """
    found = results(shapes)
    verdicts = [n for n, shape in found.items() if np.dtype(shape.dtype).kind == "b"]
    named = [_label(asked, name, records.get(name, "")) for name in asked.estimator.names]
    taken = {*found, *asked.estimator.names, LEGAL, REASON, MADE}
    numbers, plan, numbers_behind = _numbers(asked, taken)
    chosen, open_choices = _choices(asked.recipe)
    told = fingerprint(asked)
    made = " ".join(filter(None, (told["estimator"], told[CODE][:12])))
    made += f" (jaxroof {told['versions.jaxroof']})"
    return [
        *named,
        *numbers,
        *plan,
        *chosen,
        *(
            _result(n, np.dtype(shape.dtype).kind)
            for n, shape in found.items()
            if n not in verdicts
        ),
        PlanColumn(LEGAL, str, _flag, "True or False"),
        PlanColumn(REASON, str, str, "a reason"),
        *numbers_behind,
        *open_choices,
        *(_result(name, "b") for name in verdicts),
        _text(MADE, made),
        *(
            dataclasses.replace(_text(f"recipe.{name}", value), former=True)
            for name, value in former_of(asked.recipe).items()
        ),
    ]


def _text(name: str, key: Any) -> PlanColumn:
    return PlanColumn(name, str, str, "a text", key, is_key=True)


def _label(asked: SweepJob, name: str, given: str) -> PlanColumn:
    """Return the column with the name of a record, or with the names along an axis over records."""
    assert asked.every is not None
    labels, numbers = asked.every.labels.get(name, ((given,), None))
    plain = np.array([" ".join(label.split()) for label in labels], object)
    return _text(name, plain[0] if numbers is None else plain[numbers])


def _numbers(
    asked: SweepJob, taken: set[str]
) -> tuple[list[PlanColumn], list[PlanColumn], list[PlanColumn]]:
    """Return columns for all numbers of the inputs: leading, of the plan, and the rest.

    The leading columns are numbers outside any record, and numbers with an axis of their own.
    """
    every, estimator = asked.every, asked.estimator
    assert every is not None
    fixed = {path: float(value) for path, _, value in leaves(every.inputs)}
    named = tuple(f"{name}." for name in every.labels)
    own = {path for path in every.axis.columns if not path.startswith(named)}
    paths = {p: field for p, field in paths_of(estimator.inputs) if is_quantity(field)}
    first: list[PlanColumn] = []
    plan: list[PlanColumn] = []
    rest: list[PlanColumn] = []
    for path, field in paths.items():
        of_plan = path.startswith("plan.")
        short = path.removeprefix("plan.")
        if short in taken or (of_plan and short in paths):
            short = path if of_plan else f"input_{path}"
        whole = bool(field.metadata["whole"])
        value = every.axis.columns.get(path, fixed.get(path))
        column = PlanColumn(short, _whole if whole else _plain, _number, "a number", value, True)
        (plan if of_plan else first if "." not in path or path in own else rest).append(column)
    return first, plan, rest


def _choices(recipe: Any) -> tuple[list[PlanColumn], list[PlanColumn]]:
    """Return a column for every choice of a recipe: first those made, then those left open."""
    made: list[PlanColumn] = []
    left: list[PlanColumn] = []
    for name in choices_of(recipe):
        held = getattr(recipe, name)
        text = "" if held is None else str(getattr(held, "value", held))
        column = _text(f"recipe.{name}", text)
        (made if isinstance(held, enum.Enum) else left).append(column)
    return made, left


def _result(name: str, kind: str) -> PlanColumn:
    spell, parse, expected, dtype = KINDS[kind]
    return PlanColumn(name, spell, parse, expected, dtype=dtype)


def _plain(value: float | None) -> str:
    return "" if value is None else repr(value)


def _whole(value: float | None) -> str:
    return "" if value is None else str(int(value))


def _number(text: str) -> float | None:
    return float(text) if text else None


def _measure(value: float) -> str:
    return repr(value) if value == value else ""


def _measured(text: str) -> float:
    return float(text) if text else np.nan


def _count(text: str) -> int:
    return int(text) if text else -1


def _flag(text: str) -> bool:
    return {"true": True, "false": False}[text.lower()]


def _spelled(value: int) -> str:
    return "" if value == -1 else str(value)


KINDS: dict[str, tuple[Callable[[Any], str], Parse, str, str]] = {  # by kind of dtype
    "b": (str, _flag, "True or False", "bool"),
    "i": (_spelled, _count, "a whole number", "int64"),
    "f": (_measure, _measured, "a number", "float64"),
}
