"""Constraints on plans, such as ``tensor <= 8``."""

import operator
import re
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from jaxroof.engine.search.plan_text import unknown_field
from jaxroof.errors import InputError, shown

OPERATORS: dict[str, Callable[[Any, Any], Any]] = {
    "<=": operator.le,
    ">=": operator.ge,
    "!=": operator.ne,
    "==": operator.eq,
    "=": operator.eq,
    "<": operator.lt,
    ">": operator.gt,
}
MOST_DIGITS = 18  # longer than any degree
_FORM = re.compile(r"\s*([A-Za-z_]\w*)\s*(<=|>=|!=|==|=|<|>)\s*(\S+)\s*")


class Constraint(NamedTuple):
    """A comparison of one plan field with a whole number."""

    field: str
    comparison: str
    value: int
    word: str = ""  # for the value, where the field's numbers have words

    def __str__(self) -> str:
        return f"{self.field}{self.comparison}{self.word or self.value}"

    def holds(self, plans: Mapping[str, np.ndarray]) -> np.ndarray:
        """Return which plans satisfy the constraint."""
        return OPERATORS[self.comparison](plans[self.field], self.value)


def constraints(
    given: str,
    fields: Sequence[str],
    short: Mapping[str, str] | None = None,
    words: Mapping[str, Sequence[str]] | None = None,
) -> tuple[Constraint, ...]:
    """Parse constraints from a string such as ``tensor<=8,pipeline=4``.

    ``short`` maps alternative names to fields, ``words`` fields to the words of their numbers.

    Raises: InputError for a malformed constraint, an unknown field (with the nearest name), or a
    value that is not a whole number.

    >>> constraints("tensor<=8", ["tensor", "data"])
    (Constraint(field='tensor', comparison='<=', value=8, word=''),)
    """
    texts = filter(str.strip, given.split(","))
    return tuple(_constraint(text, fields, short or {}, words or {}) for text in texts)


def _constraint(
    text: str, fields: Sequence[str], short: Mapping[str, str], words: Mapping[str, Sequence[str]]
) -> Constraint:
    match = _FORM.fullmatch(text)
    if match is None:
        raise InputError(
            f"where: {shown(text.strip())} is not a constraint; expected FIELD <= NUMBER "
            f"with one of {' '.join(OPERATORS)}, such as {fields[0]}<=8"
        )
    name, comparison, number = match.groups()
    field = short.get(name, name)
    if field not in fields:
        raise unknown_field("where", name, fields, short)
    said = words.get(field, ())
    if number in said:
        return Constraint(field, comparison, said.index(number), number)
    if len(number) > MOST_DIGITS:
        what = f"expected a whole number of at most {MOST_DIGITS} digits"
        raise InputError(f"where: {field}: {what}, given {number[:MOST_DIGITS]!r} and more")
    if not (number.isascii() and number.isdigit()):
        raise InputError(
            f"where: {field}: {shown(number)} is not a whole number; expected such as 8"
        )
    return Constraint(field, comparison, int(number))
