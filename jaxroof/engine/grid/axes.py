"""Axes: which leaves of the inputs vary, over which values, each axis one dimension."""

import dataclasses
import itertools
from collections import Counter
from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from jaxroof.engine.grid.spacing import Between, Spacing, Values, listed_values, number_column
from jaxroof.errors import refusal
from jaxroof.records import (
    check_order,
    checked_values,
    field_at,
    get_at,
    is_quantity,
    last_name,
    leaves,
    members,
    replace_all,
    replace_at,
)
from jaxroof.settings import (
    Named,
    Names,
    choice,
    choice_text,
    choices_brought,
    choices_of,
    fields_of,
    is_pair,
    named_record,
)


@dataclasses.dataclass(frozen=True, eq=False)
class Axis:
    """One dimension of a grid: a name, and a column of values for each dotted path that it sets.

    Whole records and choices of the recipe also have a label at each point. The fields of a record
    are columns.
    """

    name: str
    columns: Mapping[str, np.ndarray]
    labels: Mapping[str, tuple[str, ...]] = dataclasses.field(default_factory=dict)
    # choices of the recipe, one member per point; points with different choices need different
    # programs
    choices: Mapping[str, np.ndarray] = dataclasses.field(default_factory=dict)
    asked: tuple[str, ...] = ()  # paths as given, a record as one path; empty: all columns

    @property
    def values(self) -> dict[str, np.ndarray]:
        """Return the columns of numbers and the columns of choices."""
        return {**self.columns, **self.choices}

    @property
    def paths(self) -> tuple[str, ...]:
        """Return the paths that the axis was given values for."""
        return self.asked or tuple(self.values)

    def __len__(self) -> int:
        return len(next(iter(self.values.values())))

    def part(self, some: slice) -> "Axis":
        """Return the axis restricted to a slice of its points."""
        return self.at(np.arange(len(self))[some])

    def at(self, places: np.ndarray) -> "Axis":
        """Return the axis restricted to the points at the given positions."""
        columns = {path: column[places] for path, column in self.columns.items()}
        choices = {path: column[places] for path, column in self.choices.items()}
        labels = {p: tuple(names[i] for i in places) for p, names in self.labels.items()}
        return dataclasses.replace(self, columns=columns, choices=choices, labels=labels)


AxisValues = Mapping[str, Values | Mapping[str, Any]] | Sequence[Axis]


def read_axes(
    inputs: Any,
    axes: AxisValues | None,
    recipe: Any = None,
    names: Names | None = None,
    given: Collection[str] = (),
    before: Sequence[Axis] = (),
) -> list[Axis]:
    """Return the checked axes of a grid.

    A key is a dotted path. Its values are numbers, names of records (where the path is a record)
    or choices (where the path is a field of the recipe). A key may also be a new name for a mapping
    of such paths to values of equal length, which then vary together (zip). The grid is the product
    of the axes. A field that has an axis of its own overrides the same field in the records of
    another axis. Choices in ``given`` override those that come with records. Axes that have already
    been read are returned unchanged; those ``before`` come first.
    """
    if not isinstance(axes, Mapping):
        return list(axes or ())
    read = list(before)
    own, made = paths_of(axes), {*paths_of(axes), *given}
    for key, values in axes.items():
        axis = _axis(key, values, _Given(inputs, recipe, names or {}, own, made))
        seen = {path for other in read for path in other.values}
        for path in axis.values:
            if path in seen:
                raise refusal(path, "on two axes; expected each path once")
        read.append(axis)
    return read


def tables_of(axes: Any) -> dict[str, dict[str, Any]]:
    """Return the paths of each axis with their values; an axis of one path is a table of one."""
    given = axes if isinstance(axes, Mapping) else {}
    return {
        key: dict(values)
        if isinstance(values, Mapping) and not are_labels(values)
        else {key: values}
        for key, values in given.items()
    }


def paths_of(axes: Any) -> set[str]:
    """Return every path that the axes vary, and every new name among their keys."""
    if not isinstance(axes, Mapping):
        return {path for axis in axes or () for path in axis.values}
    found = set(axes)
    for values in tables_of(axes).values():
        found |= {*values, *(p for v in values.values() if isinstance(v, Named) for p in v.columns)}
    return found


def values_of(axes: Any) -> dict[str, Any]:
    """Return the values of each path, including paths that vary together."""
    found: dict[str, Any] = {}
    for table in tables_of(axes).values():
        for path, values in table.items():
            found |= values.columns if isinstance(values, Named) else {path: values}
    return found


def are_labels(values: Mapping[str, Any]) -> bool:
    """Return whether a mapping is from labels to records rather than from paths to values."""
    return (
        bool(values)
        and all(dataclasses.is_dataclass(v) or is_pair(v) for v in values.values())
        and not any(isinstance(v, Spacing | Between) for v in values.values())
    )


def unique_names(axes: Sequence[Axis], taken: Collection[str] = ()) -> list[Axis]:
    """Return the axes with unique names that differ from the result names in ``taken``."""
    named: list[Axis] = []
    for axis in axes:
        used = {other.name for other in named} | {"rank", *taken}
        path = next(iter(axis.values))
        field = f"input_{path}" if path == axis.name else axis.name
        whole = path.replace(".", "_") if path.endswith(f".{axis.name}") else field
        name = axis.name if axis.name not in used else whole
        if name in used:
            what = "the name of a result or of another axis; expected a name of its own"
            raise refusal(name, what)
        named.append(dataclasses.replace(axis, name=name.replace(".", "_")))
    return named


def check_orders(inputs: Any, axes: Sequence[Axis]) -> None:
    """Check at every point what a tuple of records has in order, such as the sizes of tiers."""
    moved = {path for axis in axes for path in axis.columns}
    heads = {path.rpartition(".")[0].rpartition(".") for path in moved}
    for head in sorted({head for head, _, place in heads if place.isdigit()}):
        check_order(get_at(spread(inputs, axes), head), f"{head}.")


def fill_from_axes(inputs: Any, axes: Sequence[Axis]) -> Any:
    """Complete the inputs: where only an axis gives a value, use its first one.

    A number that is missing from some of an axis's records is removed from the inputs.
    """
    known = {path for path, _, _ in leaves(inputs)}
    columns = {p: c for a in axes for p, c in a.columns.items()}
    named = tuple(f"{p}." for a in axes for p in a.labels if p not in a.choices)
    lost = [path for path in known if path.startswith(named) and path not in columns]
    inputs = replace_all(inputs, dict.fromkeys(lost)) if named else inputs
    return replace_all(inputs, {p: c[0] for p, c in columns.items() if p not in known})


class _Given(NamedTuple):
    """What axes are read with."""

    inputs: Any
    recipe: Any
    names: Names
    own: Collection[str]  # the paths of all axes
    made: Collection[str]  # the choices that records must not override


def _axis(key: str, values: Any, given: _Given) -> Axis:
    """Return one axis, named by the last word of its path unless it has a name of its own."""
    if not isinstance(values, Mapping) or are_labels(values):
        axis = _one_path(key, values, given)
        for label, count in Counter(axis.labels.get(key, ())).items():
            if count > 1:
                raise refusal(key, f"{label} is there twice; expected each once")
        return axis
    if not values:
        raise refusal(key, "no path to vary; expected paths with their values")
    each = [_one_path(path, column, given) for path, column in values.items()]
    sizes = dict(zip(values, map(len, each), strict=True))
    if len(set(sizes.values())) > 1:
        said = ", ".join(f"{path} has {size}" for path, size in sizes.items())
        raise refusal(key, f"values that move together differ in number: {said}")
    columns = {path: column for axis in each for path, column in axis.columns.items()}
    named = {path: some for axis in each for path, some in axis.labels.items()}
    choices = {path: column for axis in each for path, column in axis.choices.items()}
    return Axis(key, columns, named, choices, tuple(values))


def _one_path(key: str, values: Any, given: _Given) -> Axis:
    """Return an axis over the values of one path: numbers, choices, or records by name."""
    inputs, recipe, names, own, made = given
    name = last_name(key)
    if isinstance(values, Named):
        columns = {p: number_column(inputs, p, v, names) for p, v in values.columns.items()}
        return Axis(name, columns, {key: values.labels}, asked=(key,))
    if key in choices_of(recipe):
        members = [choice(recipe, key, value) for value in listed_values(key, values)]
        labels = tuple(str(choice_text(m)) for m in members)
        return Axis(name, {}, {key: labels}, {key: _objects(members)}, (key,))
    if is_quantity(field_at(inputs, key)):
        return Axis(name, {key: number_column(inputs, key, values, names)}, asked=(key,))
    listed = list(values.values()) if isinstance(values, Mapping) else listed_values(key, values)
    every = enumerate(values if isinstance(values, Mapping) else listed)
    labels = tuple(one if isinstance(one, str) else str(place) for place, one in every)
    known = fields_of(inputs, key)
    by_name = {
        name: named_record(key, name, names, known)
        for name in dict.fromkeys(one for one in listed if isinstance(one, str))
    }
    pairs = [
        by_name[one] if isinstance(one, str) else named_record(key, one, names, known)
        for one in listed
    ]
    found = [record for record, _ in pairs]
    _check_alike(key, labels, found)
    brought = [choices_brought(key, recipe, chosen, made) for _, chosen in pairs]
    rows = [{p: v for p, _, v in leaves(record, f"{key}.")} for record in found]
    shared = set.intersection(*map(set, rows)) - set(own)
    fields = {p: f for p, f, _ in leaves(found[0], f"{key}.") if p in shared}
    columns = {
        path: checked_values([row[path] for row in rows], field, path)
        for path, field in fields.items()
    }
    choices = {  # that any record sets, with the recipe's value elsewhere
        one: _objects([chosen.get(one, getattr(recipe, one)) for chosen in brought])
        for one in dict.fromkeys(one for chosen in brought for one in chosen)
    }
    return Axis(name, columns, {key: labels}, choices, (key,))


def _check_alike(key: str, labels: Sequence[str], found: Sequence[Any]) -> None:
    """Check that records of one axis have the same tuples of records, for which no other stands."""
    many = [{name for name, _, one in members(some) if isinstance(one, tuple)} for some in found]
    for label, own in zip(labels, many, strict=True):
        for name in own ^ many[0]:
            said = f"{name} of {label} or of {labels[0]} alone; expected {name} in all or in none"
            raise refusal(key, said)


def _objects(values: Sequence[Any]) -> np.ndarray:
    column = np.empty(len(values), object)
    column[:] = values
    return column


def column_length(inputs: Any) -> int:
    """Return the number of points of inputs whose leaves are numbers or columns of one length."""
    return max((len(value) for _, _, value in leaves(inputs) if np.ndim(value)), default=1)


def spread(inputs: Any, axes: Sequence[Axis], extra: int = 0) -> Any:
    """Return the inputs with each axis on its own dimension; other leaves stay scalars.

    Every swept leaf has full rank, with size 1 on the dimensions of other axes and on ``extra``
    trailing dimensions.
    """
    rank = len(axes) + extra
    for dimension, axis in enumerate(axes):
        shape = tuple(len(axis) if d == dimension else 1 for d in range(rank))
        for path, column in axis.columns.items():
            inputs = replace_at(inputs, path, column.reshape(shape))
    return inputs


def points(axes: Sequence[Axis]) -> Iterator[tuple[tuple[int, ...], dict[str, float]]]:
    """Yield (index, {path: value}) for every point of the axes' product."""
    for index in itertools.product(*(range(len(axis)) for axis in axes)):
        values: dict[str, float] = {}
        for axis, i in zip(axes, index, strict=True):
            values.update({path: column[i] for path, column in axis.values.items()})
        yield index, values
