"""Plans as people write them: ``dp=4,tp=8``, or ``dp 4 tp 8`` as tables and answers print them."""

import dataclasses
import math
from collections.abc import Iterable, Mapping
from typing import Any

from jaxroof.errors import InputError, nearest, refusal, shown, unknown
from jaxroof.limits import BOUNDS
from jaxroof.records import get_at, number_of, value_or


def plan_items(where: str, text: str) -> dict[str, str]:
    """Return the names and the values of a plan as they are typed, each name once.

    Raises: InputError that begins with ``where`` for what is not FIELD=NUMBER.

    >>> plan_items("--plan", "dp=4,tp=8") == plan_items("--plan", "dp 4 tp 8")
    True
    """
    found: dict[str, str] = {}
    for item in text.split(","):
        words = item.replace("=", " ").split()
        if not words or len(words) % 2:
            raise refusal(
                where, f"expected FIELD=NUMBER, such as tp=8, given {shown(item.strip())}"
            )
        for name, value in zip(words[::2], words[1::2], strict=True):
            if name in found:
                raise refusal(where, f"{name}: given twice; expected each field once")
            found[name] = value
    return found


def parse_plan(
    where: str, text: str, plan: type, short: Mapping[str, str], fields: Iterable[str] = ()
) -> dict[str, int]:
    """Return the fields of a plan by their long names, whole numbers in their range.

    Arguments: ``plan`` is the record of plans, ``short`` maps other names to fields; ``fields`` are
    those that may be given, by default all.
    Raises: InputError that begins with ``where``, and says what would be right.
    """
    known = {field.name: field for field in dataclasses.fields(plan)}
    allowed = list(fields) or list(known)
    found: dict[str, int] = {}
    for name, value in plan_items(where, text).items():
        field = short.get(name, name)
        if field not in allowed:
            raise unknown_field(where, name, allowed, short)
        if field in found:
            raise refusal(where, f"{name}: given twice; expected each field once")
        about = known[field].metadata
        least, most = 0 if about["zero"] else 1, min(about["most"], BOUNDS["whole"])
        number = number_of(value, known[field], f"{where}: {name}")
        if number != int(number) or not least <= number <= most:
            most = "1e9" if most == BOUNDS["whole"] else f"{int(most)}"
            span = f"expected whole numbers from {least} to {most}"
            raise refusal(f"{where}: {name}", f"{span}, given {shown(value)}")
        found[field] = int(number)
    return found


def own_fields(question: Any, where: str, text: str) -> dict[str, int]:
    """Return the fields of a plan of the user's for a problem, by their long names.

    A number of the inputs that is a product of fields fills the one that is left open.
    Raises: InputError that begins with ``where``, if they are not plan fields in their range, or
    contradict such a number.
    """
    estimator = question.estimator
    found = parse_plan(where, text, estimator.plan, estimator.short_names)
    unused = estimator.unused_fields(question.recipe)
    for path, fields in estimator.products.items():
        whole = int(value_or(get_at(question.inputs, path), 0))
        used = [field for field in fields if field not in unused]
        left = [field for field in used if field not in found]
        product = math.prod(found.get(field, 1) for field in used)
        if not left and whole and product != whole:
            said = " x ".join(estimator.shortest[field] for field in used)
            raise refusal(where, f"{said} = {product}; expected the {whole} of --{path}")
        if len(left) == 1 and whole % product == 0:
            found[left[0]] = whole // product
    return found


def unknown_field(
    where: str, name: str, fields: Iterable[str], short: Mapping[str, str]
) -> InputError:
    """Return the error for a name of no plan field, with the nearest, or the short names of all."""
    fields = list(fields)
    others = {other: field for other, field in short.items() if field in fields}
    if nearest(name, [*others, *fields]) is not None:
        return unknown(where, name, "plan field", [*others, *fields])
    shortest = {field: other for other, field in reversed(others.items())}
    return unknown(where, name, "plan field", [shortest.get(field, field) for field in fields])
