"""Records: frozen dataclasses of numbers with units, which JAX knows as pytrees.

JAX learns of them when it is imported, and is switched to 64-bit floats for the whole process.
"""

import dataclasses
import itertools
from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, TypeVar, dataclass_transform

import numpy as np

from jaxroof.errors import InputError, NotGiven, refusal, shown, unknown
from jaxroof.lazy_jax import with_jax
from jaxroof.limits import BOUNDS
from jaxroof.units import check_unit, parse, written

if TYPE_CHECKING:
    import jax

    Number = float | jax.Array
else:
    Number = float | np.ndarray

with_jax(lambda jax: jax.config.update("jax_enable_x64", True))

Record = TypeVar("Record")
PLAIN = (float, int, bool, "float", "int", "bool")  # types of a field that lacks its quantity

# A larger number is taken for a typing error; products of larger counts would not be exact.
MOST = 1e30


def quantity(
    unit: str,
    doc: str,
    *,
    default: Any = dataclasses.MISSING,
    whole: bool = False,
    zero: bool = False,
    least: float = 0.0,
    most: float | None = None,
    better: str = "lower",
    symbol: str = "",
    words: str = "",
    label: str = "",
    part_of: str = "",
    resource: str = "",
    headline: bool = False,
    flags: Sequence[str] = (),
    error: float = 0.0,
    needs: str = "",
) -> Any:
    """Declare a field with its SI unit, a sentence on its meaning and its allowed values.

    ``whole``: only whole numbers; ``zero``: zero is allowed (negative numbers never are);
    ``least`` and ``most``: the smallest and the largest value; ``better``: the direction in which a
    search improves a result.
    A default of None marks a number that a record may lack; using a missing one raises (see
    ``with_named_absences``).

    The other arguments are for tables, sentences and pictures. ``symbol``: a short name of the
    field, which users may type; ``words``: its name in sentences; ``label``: its name in pictures
    (both default to the symbol, or else to the field's name); ``part_of``: the result that this one
    is a part of, or the plan field that it goes with; ``resource``: the resource of the machine
    that a rate, a latency or a capacity belongs to, or that a need fills (``"capacity"``);
    ``headline``: a result printed before others; ``flags``: what the whole numbers from 0 stand
    for, a word each; ``error``: how far measured runs lie from a result, relative to it; ``needs``:
    another field of the record, at whose value 0 the number has no effect.
    """
    most = most if most is not None else (BOUNDS["whole"] if whole else MOST)
    return dataclasses.field(
        default=default,
        metadata={
            "unit": unit,
            "doc": doc,
            "whole": whole,
            "zero": zero,
            "least": least,
            "most": most,
            "better": better,
            "symbol": symbol,
            "words": words,
            "label": label,
            "part_of": part_of,
            "resource": resource,
            "headline": headline,
            "needs": needs,
            **({"flags": tuple(flags)} if flags else {}),
            **({"error": error} if error else {}),
            "default": default if isinstance(default, int | float) else None,
        },
    )


@dataclass_transform(frozen_default=True, kw_only_default=True, field_specifiers=(quantity,))
def record(cls: type[Record]) -> type[Record]:
    """Make ``cls`` a frozen keyword-only dataclass and a pytree.

    Raises: InputError for a number without a unit, or with a unit that is not SI.
    """
    frozen = dataclasses.dataclass(frozen=True, kw_only=True, eq=False)(cls)
    for field in dataclasses.fields(frozen):  # type: ignore[arg-type]
        where = f"{cls.__name__}.{field.name}"
        if is_quantity(field):
            check_unit(field.metadata["unit"], where)
        elif field.type in PLAIN or isinstance(field.default, int | float):
            raise refusal(where, "a plain number; expected quantity(unit, sentence), with its unit")
    with_jax(lambda jax: jax.tree_util.register_dataclass(frozen))
    return frozen


def is_quantity(field: "dataclasses.Field[Any]") -> bool:
    """Return whether a record's field holds a number (rather than another record)."""
    return "unit" in field.metadata


def units(cls: type[Any]) -> dict[str, str]:
    """Return the SI unit of every number of a record, by name."""
    return {f.name: f.metadata["unit"] for f in dataclasses.fields(cls) if is_quantity(f)}


_MEMBER: "dataclasses.Field[Any]" = dataclasses.field()  # of a tuple of records


def members(tree: Any) -> Iterator[tuple[str, "dataclasses.Field[Any]", Any]]:
    """Yield (name, field, value) of each part of a record, or of a tuple of records by number."""
    if isinstance(tree, tuple):
        yield from ((str(place), _MEMBER, one) for place, one in enumerate(tree))
    else:
        yield from ((f.name, f, getattr(tree, f.name)) for f in dataclasses.fields(tree))


def with_members(tree: Any, changed: Mapping[str, Any]) -> Any:
    """Return a record, or a tuple of records, with some of its parts replaced."""
    if isinstance(tree, tuple):
        return tuple(changed.get(name, one) for name, _, one in members(tree))
    return dataclasses.replace(tree, **changed)


def last_name(path: str) -> str:
    """Return the last part of a path; of a member of a tuple with the tuple's name and its place.

    >>> last_name("system.hbm_bandwidth"), last_name("system.tiers.1.size")
    ('hbm_bandwidth', 'tiers.1.size')
    """
    parts = path.split(".")
    return ".".join(parts[-3:] if parts[-2:-1] and parts[-2].isdigit() else parts[-1:])


def get_at(tree: Any, path: str) -> Any:
    """Return the leaf or record at a dotted path; members of a tuple are counted from 0."""
    for name in path.split("."):
        _known(tree, name, path)
        tree = tree[int(name)] if isinstance(tree, tuple) else getattr(tree, name)
    return tree


def field_at(tree: Any, path: str) -> "dataclasses.Field[Any]":
    """Return the dataclass field at a dotted path of a record."""
    head, _, name = path.rpartition(".")
    parent = get_at(tree, head) if head else tree
    _known(parent, name, path)
    return next(field for own, field, _ in members(parent) if own == name)


def replace_at(tree: Any, path: str, value: Any) -> Any:
    """Return a copy of a record with the value at a dotted path replaced.

    Raises: InputError with the nearest name.
    """
    head, _, rest = path.partition(".")
    leaf = replace_at(get_at(tree, head), rest, value) if rest else value
    return with_members(tree, {_known(tree, head, path): leaf})


def replace_all(tree: Any, values: Mapping[str, Any]) -> Any:
    """Return a copy of a record with the values at several dotted paths replaced, each record once.

    Raises: InputError with the nearest name.
    """
    own: dict[str, Any] = {}
    inner: dict[str, dict[str, Any]] = {}
    for path, value in values.items():
        head, _, rest = path.partition(".")
        if rest:
            inner.setdefault(head, {})[rest] = value
        else:
            own[head] = value
    for head, some in inner.items():
        own[head] = replace_all(own.get(head, get_at(tree, head)), some)
    known = {name for name, _, _ in members(tree)} if _has_members(tree) else set()
    for name in own.keys() - known:
        _known(tree, name, name)
    return with_members(tree, own) if own else tree


def leaves(tree: Any, prefix: str = "") -> Iterator[tuple[str, "dataclasses.Field[Any]", Any]]:
    """Yield (dotted path, field, value) for every number that a record gives."""
    for name, field, value in members(tree):
        if is_quantity(field):
            if value is not None:
                yield prefix + name, field, value
        elif value is not None:
            yield from leaves(value, f"{prefix}{name}.")


class Absent:
    """A placeholder for a number that a record lacks; using it raises an error with its name."""

    def __init__(self, path: str, field: "dataclasses.Field[Any]", kind: type[Any]) -> None:
        self.path, self.field, self.kind = path, field, kind  # the record that has the field

    def refuse(self, *_: Any) -> Any:
        """Raise the InputError that names the number."""
        raise Missing([self])

    def _used(self, *_: Any) -> Any:
        return self.refuse()

    __add__ = __radd__ = __sub__ = __rsub__ = __mul__ = __rmul__ = __truediv__ = _used
    __rtruediv__ = __pow__ = __rpow__ = __mod__ = __rmod__ = __neg__ = __float__ = _used
    __lt__ = __le__ = __gt__ = __ge__ = __jax_array__ = __array__ = _used
    __floordiv__ = __rfloordiv__ = __int__ = __index__ = _used

    def __array_ufunc__(self, *_: Any, **__: Any) -> Any:
        return self.refuse()


class Missing(NotGiven):
    """The answer needs numbers that the inputs do not give; the message names them."""

    def __init__(self, absent: Sequence[Absent], who: str = "") -> None:
        self.absent = tuple(absent)
        *most, last = [number.path for number in absent]
        if most:
            needed = f", and {who} needs them" if who else ""
            said = f"{', '.join(most)} and {last}: not given{needed}; expected a value each"
        else:
            about = absent[0].field.metadata
            unit = "" if about["unit"] == "1" else f" [{about['unit']}]"
            said = f"{last}: not given; expected a value: {about['doc'].rstrip('.')}{unit}"
        super().__init__(said + self._remedy("them" if most else "it"), [n.path for n in absent])

    def _remedy(self, them: str) -> str:
        """Return a hint: the name of a published record that gives the missing numbers."""
        for kind in {number.kind for number in self.absent}:
            names = [number.field.name for number in self.absent if number.kind is kind]
            name = kind.published(names) if hasattr(kind, "published") else None
            if name is not None:
                return f", or a {kind.__name__.lower()} that gives {them}, such as {name!r}"
        return ""


def with_named_absences(tree: Record, prefix: str = "") -> Record:
    """Return a record in which using a missing number raises an error with its name.

    >>> @record
    ... class Link:
    ...     bandwidth: Number | None = quantity("B/s", "Bandwidth of the link.", default=None)
    >>> with_named_absences(Link()).bandwidth * 2.0
    Traceback (most recent call last):
    jaxroof.records.Missing: bandwidth: not given; expected a value: Bandwidth of the link [B/s]
    """
    changed: dict[str, Any] = {}
    for name, field, value in members(tree) if _has_members(tree) else ():
        if value is None and is_quantity(field):
            changed[name] = Absent(prefix + name, field, type(tree))
        elif _has_members(value):
            inner = with_named_absences(value, f"{prefix}{name}.")
            if inner is not value:
                changed[name] = inner
    return with_members(tree, changed) if changed else tree


def value_or(value: Any, otherwise: Any) -> Any:
    """Return a value, or ``otherwise`` if the value is missing.

    >>> value_or(None, 2.0)
    2.0
    """
    return otherwise if value is None or isinstance(value, Absent) else value


def checked(tree: Record, prefix: str = "") -> Record:
    """Return a record whose leaves are checked float64 arrays; all input passes through here."""
    changed: dict[str, Any] = {}
    for name, field, value in members(tree):
        path = prefix + name
        if value is None:
            continue
        if is_quantity(field):
            changed[name] = checked_values(value, field, path)
        else:
            changed[name] = checked(value, f"{path}.")
    made = with_members(tree, changed)
    if isinstance(made, tuple):
        check_order(made, prefix)
    return made


def check_order(members_of: Sequence[Any], prefix: str) -> None:
    """Check that the numbers that a tuple's records name in ``GROWING`` never fall along it."""
    for place, (below, one) in enumerate(itertools.pairwise(members_of), start=1):
        for name in getattr(one, "GROWING", ()):
            less, least = getattr(one, name), getattr(below, name)
            if np.any(less < least):
                said = f"expected at least that of {prefix}{place - 1}, {np.max(least):.12g}"
                raise refusal(f"{prefix}{place}.{name}", f"{said}, given {np.min(less):.12g}")


def checked_values(value: Any, field: "dataclasses.Field[Any]", where: str) -> np.ndarray:
    """Return a field's value or values as float64 after checking that they are in its range."""
    try:
        array = np.asarray(value, dtype=np.float64)
    except OverflowError:  # an integer too large for a float
        raise InputError(f"{where}: expected {_range(field)}, given {shown(value)}") from None
    except (TypeError, ValueError):
        array = None
    if array is None or np.asarray(value).dtype == bool:
        said = shown(value) if array is None else str(value).lower()
        raise InputError(f"{where}: {said} is not a number; expected {_range(field)}")
    low = array >= 0 if field.metadata["zero"] else array > 0
    low &= array >= field.metadata["least"]
    good = np.isfinite(array) & low & (array <= field.metadata["most"])
    if field.metadata["whole"]:
        good &= array == np.floor(array)
    if not good.all():
        first = array[~good].flat[0] if array.ndim else array
        raise InputError(f"{where}: expected {_range(field)}, given {float(first):.12g}")
    return array


def number_of(value: Any, field: "dataclasses.Field[Any]", where: str) -> float:
    """Return the number that is written for a field: with a unit, or by one of its words."""
    words = field.metadata.get("flags", ())
    if value in words:
        return float(words.index(value))
    if words and isinstance(value, str) and not value.strip().isdigit():
        raise unknown(where, value, "value", words)
    return parse(value, field.metadata["unit"], where)


def _range(field: "dataclasses.Field[Any]") -> str:
    kind = "a whole number" if field.metadata["whole"] else "a finite number"
    low = "of at least 0" if field.metadata["zero"] else "above 0"
    low = f"of at least {field.metadata['least']:g}" if field.metadata["least"] else low
    most = field.metadata["most"]
    unit = "" if field.metadata["unit"] == "1" else f" [{field.metadata['unit']}]"
    unit += f", such as '2 {form}'" if (form := written(field.metadata["unit"])) else ""
    return f"{kind} {low}" + (f" and at most {most:.12g}" if most != MOST else "") + unit


def _has_members(tree: Any) -> bool:
    return isinstance(tree, tuple) or dataclasses.is_dataclass(tree)


def _known(tree: Any, name: str, path: str) -> str:
    if not _has_members(tree):
        what = "nothing is given there" if tree is None else "it is one number"
        raise InputError(f"{path}: no such field: {path.rpartition('.')[0]} has none, {what}")
    names = [own for own, _, _ in members(tree)]
    if name not in names:
        raise unknown("", path, f"field of {type(tree).__name__}", names)
    return name
