"""Axes: which leaves of the inputs vary, over what values, and how they become dimensions."""

import dataclasses
import enum
import itertools
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from typing import Any

import jax
import numpy as np

from jaxroof.errors import refusal, unknown
from jaxroof.records import checked_values, field_at, get_at, is_quantity, leaves, replace_at
from jaxroof.units import parse

MOST_POINTS = 10_000_000  # of one axis


@dataclasses.dataclass(frozen=True)
class Spacing:
    """Equal steps from ``start`` to ``stop``, in the value or in its logarithm."""

    start: float | str
    stop: float | str
    count: int
    log: bool = False


def linspace(start: float | str, stop: float | str, count: int) -> Spacing:
    """Return ``count`` equally spaced values for an axis; texts carry units.

    >>> linspace("80 GB", "192 GB", 3).count
    3
    """
    return Spacing(start, stop, count)


def geomspace(start: float | str, stop: float | str, count: int) -> Spacing:
    """Return ``count`` values in equal ratios for an axis; texts carry units.

    >>> geomspace("1 TB/s", "16 TB/s", 5).log
    True
    """
    return Spacing(start, stop, count, log=True)


@dataclasses.dataclass(frozen=True, eq=False)
class Axis:
    """One dimension: a name, and for each dotted path that it sets one value a point."""

    name: str
    columns: Mapping[str, np.ndarray]

    def __len__(self) -> int:
        return len(next(iter(self.columns.values())))


Values = Sequence[Any] | np.ndarray | Spacing


def read_axes(
    inputs: Any,
    axes: Mapping[str, Values | Mapping[str, Values]] | None,
    taken: Collection[str] = (),
) -> list[Axis]:
    """Return the checked axes of a grid, none named as one of the results ``taken``.

    A key is a dotted path with its values; or a name of your own with a mapping of paths to values
    of equal length, which then move together (zip). Axes cross each other.

    Raises: InputError for unknown paths, empty axes, wrong units, uneven or repeated paths, and
    names that a result has.
    """
    read: list[Axis] = []
    seen: set[str] = set()
    for key, values in (axes or {}).items():
        together = isinstance(values, Mapping)
        paths = dict(values) if isinstance(values, Mapping) else {key: values}
        columns = {path: _column(inputs, path, v) for path, v in paths.items()}
        sizes = {path: len(column) for path, column in columns.items()}
        if not sizes:
            raise refusal(key, "no path to vary; expected paths with their values")
        if len(set(sizes.values())) > 1:
            said = ", ".join(f"{path} has {size}" for path, size in sizes.items())
            raise refusal(key, f"values that move together differ in number: {said}")
        for path in columns:
            if path in seen:
                raise refusal(path, "on two axes; expected each path once")
            seen.add(path)
        name = key if together else key.rpartition(".")[2]
        used = {axis.name for axis in read} | {"rank", *taken}
        if name in used:
            name = key.replace(".", "_")
        if name in used:
            raise refusal(
                key, "the name of a result or of another axis; expected a name of its own"
            )
        read.append(Axis(name.replace(".", "_"), columns))
    return read


def spread(inputs: Any, axes: Sequence[Axis], extra: int = 0) -> Any:
    """Return the inputs with each axis on a dimension of its own; other leaves stay scalars.

    Every swept leaf has full rank, size 1 on the dimensions that are not its own, and ``extra``
    dimensions of size 1 behind.
    """
    rank = len(axes) + extra
    for dimension, axis in enumerate(axes):
        shape = tuple(len(axis) if d == dimension else 1 for d in range(rank))
        for path, column in axis.columns.items():
            inputs = replace_at(inputs, path, column.reshape(shape))
    return inputs


def touched(function: Callable[[Any], Any], inputs: Any, axes: Sequence[Axis]) -> Any:
    """Return, for each result of a function of the inputs, the dimensions that it depends on.

    Nothing is computed: an axis that touches a result shows in the result's shape.
    """
    pairs = [Axis(a.name, {p: c[:1].repeat(2) for p, c in a.columns.items()}) for a in axes]
    shapes = jax.eval_shape(function, spread(inputs, pairs))
    return jax.tree.map(lambda leaf: {d for d, size in enumerate(leaf.shape) if size > 1}, shapes)


def points(axes: Sequence[Axis]) -> Iterator[tuple[tuple[int, ...], dict[str, float]]]:
    """Yield (index, {path: value}) for every point of the axes' product."""
    for index in itertools.product(*(range(len(axis)) for axis in axes)):
        values: dict[str, float] = {}
        for axis, i in zip(axes, index, strict=True):
            values.update({path: column[i] for path, column in axis.columns.items()})
        yield index, values


def replace_all(inputs: Any, values: Mapping[str, Any]) -> Any:
    """Return the inputs with the values at several paths replaced."""
    for path, value in values.items():
        inputs = replace_at(inputs, path, value)
    return inputs


def settle(inputs: Any, recipe: Any, settings: Mapping[str, Any]) -> tuple[Any, Any]:
    """Return inputs and recipe with settings applied: fields of the recipe, or paths of the inputs.

    A text is read with the unit of its field, or as the name of a structural choice.

    Raises: InputError for an unknown name (with the nearest), a wrong unit or a wrong choice.
    """
    choices = [f.name for f in dataclasses.fields(recipe)] if recipe is not None else []
    for key, value in settings.items():
        if key in choices:
            recipe = dataclasses.replace(recipe, **{key: _choice(recipe, key, value)})
            continue
        known = [f.name for f in dataclasses.fields(inputs)]
        if "." not in key and key not in known:
            inside = [path for path, _, _ in leaves(inputs) if path.rpartition(".")[2] == key]
            what = f"field of {type(inputs).__name__}"
            raise unknown("", key, what, inside or [*known, *choices])
        inputs = replace_at(inputs, key, _value(inputs, key, value))
    return inputs, recipe


def _choice(recipe: Any, key: str, value: Any) -> Any:
    kind = type(getattr(recipe, key))
    if isinstance(value, kind) or not issubclass(kind, enum.Enum):
        return value
    members = {member.value: member for member in kind}
    if not isinstance(value, str) or value not in members:
        raise unknown(key, str(value), kind.__name__, members)
    return members[value]


def _value(inputs: Any, path: str, value: Any) -> Any:
    field = field_at(inputs, path)
    if not is_quantity(field):
        if dataclasses.is_dataclass(value) and not isinstance(value, type):
            return value
        raise refusal(path, f"a record, not a number, given {value!r}; {_fields_of(inputs, path)}")
    if isinstance(value, str):
        value = parse(value, field.metadata["unit"], path)
    elif isinstance(value, list | tuple | Mapping):
        raise refusal(path, f"expected one number, given {value!r}; several make an axis")
    return checked_values(value, field, path)


def _fields_of(inputs: Any, path: str) -> str:
    held = get_at(inputs, path)
    names = [f.name for f in dataclasses.fields(held)] if held is not None else []
    return f"expected one of {', '.join(f'{path}.{name}' for name in names)}"


def _column(inputs: Any, path: str, values: Any) -> np.ndarray:
    field = field_at(inputs, path)
    if not is_quantity(field):
        raise refusal(path, f"a record, not a number; {_fields_of(inputs, path)}")
    unit = field.metadata["unit"]
    if isinstance(values, Spacing):
        ends = [parse(v, unit, path) for v in (values.start, values.stop)]
        if values.count > MOST_POINTS:
            raise refusal(path, f"expected at most {MOST_POINTS:,} values, given {values.count:,}")
        if values.count < 1:
            raise refusal(path, f"an empty axis, given count {values.count}")
        if values.log and min(ends) <= 0:
            raise refusal(path, "log spacing from or to 0; expected values above 0")
        space = np.geomspace if values.log else np.linspace
        column = space(ends[0], ends[1], values.count)
    elif isinstance(values, str | bytes) or not isinstance(values, Sequence | np.ndarray):
        raise refusal(path, f"expected a list of values, given {values!r}")
    else:
        column = np.asarray([parse(v, unit, path) for v in values], dtype=np.float64)
    if len(column) == 0:
        raise refusal(path, "an empty axis; expected at least one value")
    return np.atleast_1d(checked_values(column, field, path))
