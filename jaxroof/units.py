"""Numbers with units: "2.039 TB/s" to SI and back.

A number is in SI already; a string has its own unit. GB is 1e9 bytes and GiB is 2**30 bytes.
Outside this file every quantity is a float in FLOP, B, s, FLOP/s, B/s or W.
"""

import functools
import itertools
import math
import numbers
import re
from collections.abc import Iterable
from decimal import Decimal
from typing import Any

from jaxroof.errors import InputError, refusal, shown

# Prefix -> power of ten (or, for bytes, of two).
_LARGE = {"": 0, "k": 3, "M": 6, "G": 9, "T": 12, "P": 15, "E": 18, "Z": 21, "Y": 24}
_SMALL = {"": 0, "m": -3, "u": -6, "\u00b5": -6, "\u03bc": -6, "n": -9}  # both characters for micro
_LONG = {"min": 60, "h": 3600, "day": 86400, "days": 86400}
_BINARY = {"Ki": 10, "Mi": 20, "Gi": 30, "Ti": 40, "Pi": 50, "Ei": 60}

# Unit -> its spellings (the first is the one that is printed) and the prefixes they take.
_SPELLINGS = {
    "FLOP/s": (("FLOP/s", "FLOPS", "flop/s"), _LARGE),
    "FLOP": (("FLOP", "FLOPs", "flop"), _LARGE),
    "B": (("B",), _LARGE),
    "B/s": (("B/s",), _LARGE),
    "s": (("s",), _SMALL),
    "W": (("W",), _LARGE),
}

# Unit -> how prices and rates are written, and how many of the unit one is: a numerator over an
# SI denominator, such as 1 over the seconds of an hour.
_HOUR, _DAY, _KWH, _MONTH = 3600, 86400, 3_600_000, 2_629_800
_WRITTEN = {
    "USD": {"$": (1, 1)},
    "USD/s": {"$/h": (1, _HOUR), "$/day": (1, _DAY), "$/s": (1, 1)},
    "USD/J": {"$/kWh": (1, _KWH), "$/MWh": (1, 1000 * _KWH)},
    "USD/B s": {"$/GB-month": (1, 10**9 * _MONTH)},
    "kg/J": {"g/kWh": (1, 1000 * _KWH), "kg/kWh": (1, _KWH)},
    "request/s": {"/s": (1, 1), "requests/s": (1, 1), "/min": (1, 60), "/h": (1, _HOUR)},
    "1/s": {"1/h": (1, _HOUR), "1/day": (1, _DAY)},
    "1/year": {"%": (1, 100), "%/year": (1, 100)},
}

# Unit -> name of its quantity, and the text after "expected" in errors.
_MEANING = {
    "FLOP/s": ("a compute rate", "FLOP/s under any prefix, such as '989.4 TFLOP/s'"),
    "FLOP": ("an amount of compute", "FLOP under any prefix, such as '2 PFLOP'"),
    "B": ("an amount of memory", "B under any prefix, such as '80 GB'"),
    "B/s": ("a bandwidth", "B/s under any prefix, such as '2 TB/s'"),
    "s": ("a time", "s, ms, us, ns, min, h or days, such as '20 us'"),
    "W": ("a power", "W under any prefix, such as '700 W'"),
    "1": ("a plain number", "a number or a percentage, such as '0.7' or '70 %'"),
}

# Words of the unit of a field: of SI, the years and hours of prices, nouns, and currencies.
_PLAIN = {"1", "FLOP", "B", "s", "W", "J", "m", "kg", "K", "A", "V", "h"}
_COUNTED = re.compile(r"[a-z]{3,}|[A-Z]{3}")
_MISNAMED = {
    *("byte", "bytes", "bit", "bits", "sec", "second", "seconds", "min", "minute", "minutes"),
    *("hour", "hours", "days", "flop", "flops", "watt", "watts"),
}
_NUMBER = re.compile(
    r"([+-]?(?:[0-9][0-9_]*\.?[0-9_]*|\.[0-9]+)(?:[eE][+-]?[0-9]+)?)\s*(.*)", re.DOTALL
)
_THOUSANDS = re.compile(r"[+-]?[0-9]{1,3}([, ][0-9]{3})+(?![0-9])")
_BITS = re.compile(r"([kKmMgGtTpPeEzZyY]?i?)b(/s|ps)?")
JOIN = "\ue000"  # stands for a space at which text is not wrapped


def parse(value: object, unit: str, where: str = "") -> float:
    """Return a quantity in the SI unit ``unit``: a number unchanged, a string converted.

    >>> parse("2.039 TB/s", "B/s"), parse("192 GiB", "B"), parse("70 %", "1"), parse(8, "token")
    (2039000000000.0, 206158430208.0, 0.7, 8.0)
    >>> parse("2 GB", "B/s", "gpt3.toml: system.hbm_bandwidth")  # doctest: +ELLIPSIS
    Traceback (most recent call last):
    jaxroof.errors.InputError: gpt3.toml: system.hbm_bandwidth: 'GB' is not a bandwidth, given ...
    """
    if isinstance(value, str):
        return _parse_text(value, unit, where)
    if isinstance(value, bool) or not isinstance(value, numbers.Real):
        raise _not_a_number(value, unit, where)
    try:
        number = float(value)
    except OverflowError:
        number = math.inf
    if not math.isfinite(number):
        raise _not_a_number(value, unit, where)
    return number


def check_unit(unit: str, where: str) -> None:
    """Check that the unit of a field is in SI, or names what is counted, such as token/s.

    >>> check_unit("FLOP/s h/USD", "Chip.work")
    >>> check_unit("GB/s", "Chip.link")
    Traceback (most recent call last):
    jaxroof.errors.InputError: Chip.link: unit 'GB/s' is not SI; expected 'B/s', whatever is typed.
    """
    words = re.split(r"[/ ]", unit)
    if unit and all(
        word.rstrip("23") in _PLAIN or (_COUNTED.fullmatch(word) and word not in _MISNAMED)
        for word in words
    ):
        return
    known = next((si for si in _SPELLINGS if unit and unit in _scales(si)), None)
    of = "FLOP, B, s, W, 1, a quotient of them, or what is counted, such as token"
    expected = f"{known!r}, whatever is typed" if known else of
    raise refusal(where, f"unit {shown(unit)} is not SI; expected {expected}.")


def show(value: float, unit: str) -> str:
    """Return a quantity as text, with at most six digits and a decimal prefix.

    >>> show(2.039e12, "B/s"), show(80e9, "B"), show(20e-6, "s"), show(2e31, "FLOP")
    ('2.039 TB/s', '80 GB', '20 us', '2e31 FLOP')
    """
    number = float(value)
    if unit == "1":
        return _digits(number)
    if unit not in _SPELLINGS or number == 0.0 or not math.isfinite(number):
        return f"{_digits(number)} {unit}"
    rounded = abs(float(f"{number:.6g}"))
    powers = {power: prefix for prefix, power in reversed(_SPELLINGS[unit][1].items())}
    if rounded >= float(f"1e{max(powers) + 3}"):
        return f"{_digits(number)} {unit}"  # beyond the prefixes
    fitting = [power for power in powers if float(f"1e{power}") <= rounded]
    power = max(fitting, default=min(powers))
    prefix = "u" if power == -6 else powers[power]
    return f"{_digits(number / float(f'1e{power}'))} {prefix}{unit}"


def unbroken(text: str) -> str:
    """Keep a number on one line with its unit and the word before it: mark those spaces with JOIN.

    >>> unbroken("of dp 16 each takes 1.5 GB/s").replace(JOIN, "~")
    'of dp~16 each takes~1.5~GB/s'
    """
    return _WORD_BEFORE.sub(rf"\1{JOIN}", _before_unit().sub(JOIN, text))


_WORD_BEFORE = re.compile(rf"(?<!\S)([^\s{JOIN}]*[a-z=±]) (?=[+-]?[0-9])")  # not itself a unit


@functools.cache
def _before_unit() -> re.Pattern[str]:
    known = {"%"}.union(*map(_scales, _SPELLINGS)) - {""}
    units = "|".join(sorted(map(re.escape, known), key=len, reverse=True))
    return re.compile(rf"(?<=[0-9]) (?=(?:{units})(?:/\w+)?(?!\w))")


def _parse_text(text: str, unit: str, where: str) -> float:
    match = _NUMBER.fullmatch(text.strip())
    if match is None:
        raise _not_a_number(text, unit, where)
    number, spelling = match.groups()
    try:
        plain = float(number)
    except ValueError:  # misplaced underscores
        raise _not_a_number(text, unit, where) from None
    scale = _scales(unit).get(spelling)
    if scale is None:
        raise _wrong_unit(text, number, spelling, unit, where)
    # Decimal, so that "2.039 TB/s" is exactly the float 2.039e12.
    if plain != 0.0 and math.isfinite(plain):
        plain = float(Decimal(number) * scale)
    if not math.isfinite(plain):
        raise _not_a_number(text, unit, where)
    return plain


@functools.cache
def _scales(unit: str) -> dict[str, Decimal]:
    """Return every accepted spelling of a unit with its size in SI; no unit means SI."""
    one = Decimal(1)
    if unit == "1":
        return {"": one, "%": Decimal("0.01")}
    if unit not in _SPELLINGS:
        scales = {"": one, unit: one} | ({f"{unit}s": one} if unit.isalpha() else {})
        written = _WRITTEN.get(unit, {})
        scales |= {word: Decimal(top) / Decimal(under) for word, (top, under) in written.items()}
        counts = {"k": 3, "M": 6, "T": 12} if unit == "token" else {}  # G and B are of bytes
        for prefix, power in counts.items():
            scales |= {f"{prefix}{word}": one.scaleb(power) for word in ("", " token", " tokens")}
        return scales
    spellings, prefixes = _SPELLINGS[unit]
    scales = {"": one}
    for spelling in spellings:
        scales |= {prefix + spelling: one.scaleb(power) for prefix, power in prefixes.items()}
    if unit == "s":
        scales |= {name: Decimal(seconds) for name, seconds in _LONG.items()}
    if unit in ("B", "B/s"):
        scales |= {prefix + unit: Decimal(2**power) for prefix, power in _BINARY.items()}
    if unit == "B/s":
        scales |= {f"{prefix}bit/s": one.scaleb(power) / 8 for prefix, power in _LARGE.items()}
    return scales


def _wrong_unit(text: str, number: str, spelling: str, unit: str, where: str) -> InputError:
    if _THOUSANDS.match(text.strip()):
        remedy = f"write {re.sub('(?<=[0-9])[, ](?=[0-9])', '', text.strip())!r}"
        return refusal(where, f"a number in groups of digits, given {shown(text)}; {remedy}.")
    bits = _BITS.fullmatch(spelling) if unit in ("B", "B/s") else None
    if bits is not None:
        prefix = "k" if bits[1] in ("k", "K") else bits[1].capitalize()
        remedy = f"write {prefix}{unit} for bytes"
        if unit == "B/s" and prefix in _LARGE:
            remedy = f"write {prefix}B/s for bytes or {prefix}bit/s for bits"
        problem = f"{shown(spelling)} may mean bits or bytes"
        return refusal(where, f"{problem}, given {shown(text)}; {remedy}.")
    noun, expected = _meaning(unit)
    near = _same_letters(spelling, unit)
    hint = f" Did you mean '{number} {near}'?" if near else ""
    problem = f"{shown(spelling)} is not {noun}"
    return refusal(where, f"{problem}, given {shown(text)}; expected {expected}.{hint}")


def _same_letters(spelling: str, unit: str) -> str | None:
    """Return the unit that differs from ``spelling`` only in case, or in "ps" for "/s"."""
    scales = _scales(unit)
    folded = {spelling.casefold(), re.sub("ps$", "/s", spelling.casefold())}
    for known, scale in scales.items():
        if known and known.casefold() in folded:
            return next(first for first, size in scales.items() if first and size == scale)
    return None


def _not_a_number(value: object, unit: str, where: str) -> InputError:
    expected = _meaning(unit)[1]
    return refusal(where, f"not a finite number, given {shown(value)}; expected {expected}.")


def written(unit: str) -> str:
    """Return how people write a unit of prices and rates, empty for another.

    >>> written("USD/s"), written("s")
    ('$/h', '')
    """
    return next(iter(_WRITTEN.get(unit, {})), "")


def _meaning(unit: str) -> tuple[str, str]:
    if form := written(unit):
        return f"in {form}", f"such as '2 {form}'"
    plain = (f"in {unit}", f"a plain number, such as '2' or '2 {unit}'")
    return _MEANING.get(unit, plain)


def _digits(number: float) -> str:
    mantissa, _, exponent = f"{number:.6g}".partition("e")
    return f"{mantissa}e{int(exponent)}" if exponent else mantissa


def size(value: float, unit: str) -> str:
    """Return an amount with four digits.

    >>> size(169.0322e9, "B")
    '169 GB'
    """
    return show(float(f"{value:.4g}"), unit)


def percent(share: float, digits: int = 0) -> str:
    """Return a share in per cent.

    >>> percent(0.1734), percent(0.1734, 1)
    ('17 %', '17.3 %')
    """
    return f"{100 * share:.{digits}f} %"


def seconds(value: float) -> str:
    """Return a time with four digits, in s, ms or us.

    >>> seconds(39.9751), seconds(0.01234)
    ('39.98 s', '12.34 ms')
    """
    for scale, unit in ((1.0, "s"), (1e-3, "ms"), (1e-6, "us")):
        if value >= scale or unit == "us":
            return f"{value / scale:.4g} {unit}" if value < 1e4 else f"{value:,.0f} s"
    return ""


def amount(value: float, unit: str) -> str:
    """Return a result with four digits and its unit.

    >>> amount(5.29144, "day"), amount(3.83512, "s"), amount(62_561_100.0, "USD")
    ('5.291 days', '3.835 s', '$62.56 million')
    """
    if unit == "USD":
        return f"${value / 1e6:.4g} million" if abs(value) >= 1e6 else f"${value:,.0f}"
    if unit == "J" and abs(value) >= 3.6e9:
        return f"{value / 3.6e9:,.4g} MWh"
    if unit == "day":
        return f"{value:,.4g} days"
    return seconds(value) if unit == "s" else size(value, unit)


def days(value: float) -> str:
    """Return a number of days with three digits, in full without an exponent.

    >>> days(12.345), days(1234.5), days(0.04)
    ('12.3', '1,234', '0.0400')
    """
    return f"{value:,.0f}" if value >= 100 else f"{value:#.3g}"


def times(ratio: float) -> str:
    """Return a ratio in words, with enough digits to distinguish it from 1.

    >>> times(1.2), times(1.00123), times(12.34), times(1234.5)
    ('1.20 times', '1.0012 times', '12.3 times', '1,234 times')
    """
    return f"{days(ratio)} times" if ratio >= 1.01 else f"{ratio:.5g} times"


def gigabytes(value: float) -> str:
    """Return bytes in GB as a cell; a dash where there are none.

    >>> gigabytes(0.0), gigabytes(85.52e9), gigabytes(1.2e11)
    ('-', '85.52', '120')
    """
    return "-" if value == 0 else f"{value / 1e9:.2f}" if value < 99.95e9 else f"{value / 1e9:.0f}"


def portion(share: float) -> str:
    """Return a share in per cent with three digits, of small ones two after the point.

    >>> portion(0.87291), portion(0.0052049), portion(-27.8), portion(2e-6)
    ('87.3 %', '0.52 %', '-2,780 %', '<0.01 %')
    """
    value = 100.0 * share
    if 0.0 < abs(value) < 0.005:
        return "<0.01 %"
    if abs(value) >= 1000.0:
        return f"{value:,.0f} %"
    return f"{value:.3g} %" if abs(value) >= 1.0 else f"{round(value, 2):g} %"


def too_much(need: float, limit: float, unit: str = "B") -> str:
    """Return how large a need is, and by how much that is more than there is.

    >>> too_much(90e9, 80e9)
    '90 GB, 10 GB more than the 80 GB there are'
    """
    needed, over, there = (size(value, unit) for value in (need, need - limit, limit))
    return f"{needed}, {over} more than the {there} there are"


def equal_runs(values: Iterable[Any]) -> list[tuple[Any, int]]:
    """Return the values alike that follow each other, once, and how many they are.

    >>> equal_runs([7, 8, 8, 7])
    [(7, 1), (8, 2), (7, 1)]
    """
    return [(value, len([*run])) for value, run in itertools.groupby(values)]
