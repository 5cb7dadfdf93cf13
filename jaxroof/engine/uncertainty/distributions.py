"""Distributions of uncertain inputs as quantile functions, their draws, and Sobol indices."""

import dataclasses
from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
from scipy.special import ndtr, ndtri
from scipy.stats import qmc

from jaxroof.errors import refusal, shown, unknown
from jaxroof.limits import BOUNDS
from jaxroof.records import checked_values, field_at, get_at, is_quantity
from jaxroof.units import parse, show

FORMS = {  # the key that identifies the form, and the other keys that it allows
    "values": ("weights",),
    "around": ("shape",),
    "mean": ("deviation", "shape"),
    "from": ("to", "shape", "peak"),
}
KEYS = [*FORMS, *dict.fromkeys(key for keys in FORMS.values() for key in keys)]
EXPECTED = (
    "expected [low, high], or a table with from and to, around, mean and deviation, or values"
)

CERTAIN = 1.96  # half width of a 95 % interval in standard errors
SAME = 1e-12  # spread relative to the mean that counts as rounding


@dataclasses.dataclass(frozen=True, eq=False)
class Distribution:
    """The distribution of an uncertain number."""

    at: Callable[[np.ndarray], np.ndarray]  # quantile function: probabilities 0 to 1 -> values
    words: str  # a description for people


@dataclasses.dataclass(frozen=True, eq=False)
class Place:
    """The field that is uncertain: its path, its declaration and its current value."""

    path: str
    field: "dataclasses.Field[Any]"
    today: float | None

    def number(self, value: Any, key: str) -> float:
        """Return a value of the field, parsed with its unit and checked."""
        where = f"{self.path}.{key}"
        read = parse(value, self.field.metadata["unit"], where)
        return float(checked_values(read, self.field, where))

    def show(self, value: float) -> str:
        """Return a value of the field as text with its unit."""
        return show(value, self.field.metadata["unit"])


def distribution(inputs: Any, path: str, written: Any) -> Distribution:
    """Return the distribution of the number at a path of some inputs.

    ``written`` is [low, high], or a mapping with one of these forms: from, to and a shape
    (uniform, loguniform, or triangular with its peak); around, a share of the current value in
    both directions, and a shape; mean and deviation (normal, truncated to the field's range);
    values and their weights. Values given as text carry units.

    >>> import jaxroof as jr
    >>> found = distribution(jr.system("h200-nvs4"), "matrix_efficiency", ["0.7", "90 %"])
    >>> found.at(np.array([0.0, 0.5, 1.0])).round(9).tolist(), found.words
    ([0.7, 0.8, 0.9], '0.7 to 0.9')
    """
    field = field_at(inputs, path)
    if not is_quantity(field):
        raise refusal(path, "a record, not a number; expected the path of one of its fields")
    today = get_at(inputs, path)
    place = Place(path, field, None if today is None else float(today))
    if isinstance(written, Sequence) and not isinstance(written, str):
        if len(written) != 2:
            raise refusal(path, f"{EXPECTED}, given {len(written)} values")
        written = {"from": written[0], "to": written[1]}
    if not isinstance(written, Mapping):
        raise refusal(path, f"{EXPECTED}, given {shown(written)}")
    for key in written:
        if key not in KEYS:
            raise unknown(path, str(key), "key of a distribution", KEYS)
    form = next((form for form in FORMS if form in written), None)
    if form is None:
        raise refusal(path, EXPECTED)
    for key in written:
        if key != form and key not in FORMS[form]:
            beside = " and ".join(FORMS[form])
            raise refusal(path, f"{key} beside {form}; expected {form} with {beside} alone")
    found = READERS[form](place, written)
    if form != "values" and field.metadata["whole"]:
        raise refusal(path, "takes whole numbers alone; expected a table with values = [...]")
    return found


def _between(place: Place, written: Mapping[str, Any]) -> Distribution:
    if "to" not in written:
        raise refusal(place.path, "to is missing; expected from and to")
    low, high = place.number(written["from"], "from"), place.number(written["to"], "to")
    if low > high:
        ends = f"{place.show(low)} to {place.show(high)}"
        raise refusal(place.path, f"from {ends}; expected the lower end first")
    return _shaped(place, written, low, high, None)


def _around(place: Place, written: Mapping[str, Any]) -> Distribution:
    if place.today is None:
        what = "around what is given, and nothing is; expected from and to"
        raise refusal(place.path, what)
    share = parse(written["around"], "1", f"{place.path}.around")
    if share < 0:
        raise refusal(f"{place.path}.around", f"expected a share of at least 0, given {share:g}")
    low, high = ((1.0 + sign * share) * place.today for sign in (-1.0, 1.0))
    checked_values([low, high], place.field, f"{place.path}.around")
    return _shaped(place, written, low, high, place.today)


def _shaped(
    place: Place, written: Mapping[str, Any], low: float, high: float, peak: float | None
) -> Distribution:
    """Return a distribution between two ends; only the triangular shape uses the peak."""
    shape, words = _shape(place, written, SHAPES), f"{place.show(low)} to {place.show(high)}"
    if "peak" in written and shape != "triangular":
        raise refusal(place.path, f"a {shape} shape has no peak; expected shape = 'triangular'")
    if "peak" in written:
        peak = place.number(written["peak"], "peak")
    if shape == "triangular" and peak is None:
        raise refusal(place.path, "peak is missing; expected from, to and peak")
    if shape == "triangular" and peak is not None and not low <= peak <= high:
        raise refusal(place.path, f"peak {place.show(peak)} is not between {words}")
    if shape == "loguniform" and low <= 0:
        raise refusal(place.path, "loguniform from 0; expected values above 0")
    if shape == "triangular" and peak is not None:
        words += f", peak {place.show(peak)}"
    elif shape != "uniform":
        words += f", {shape}"
    middle = low if peak is None else peak
    return Distribution(
        lambda share: np.clip(SHAPES[shape](low, high, middle, share), low, high), words
    )


def _normal(place: Place, written: Mapping[str, Any]) -> Distribution:
    if "deviation" not in written:
        raise refusal(place.path, "deviation is missing; expected mean and deviation")
    _shape(place, written, ("normal",))
    mean, unit = place.number(written["mean"], "mean"), place.field.metadata["unit"]
    deviation = parse(written["deviation"], unit, f"{place.path}.deviation")
    if deviation < 0:
        said = f"expected a deviation of at least 0, given {place.show(deviation)}"
        raise refusal(f"{place.path}.deviation", said)
    words = f"normal, {place.show(mean)} ± {place.show(deviation)}"
    if deviation == 0:
        return Distribution(lambda share: np.full_like(share, mean), words)
    most = place.field.metadata["most"]
    first, last = ndtr((np.array([0.0, most]) - mean) / deviation)
    return Distribution(
        lambda share: np.clip(mean + deviation * ndtri(first + share * (last - first)), 0.0, most),
        words,
    )


def _listed(place: Place, written: Mapping[str, Any]) -> Distribution:
    path, given = place.path, written["values"]
    weights = written.get("weights", [1.0] * len(given) if isinstance(given, Sequence) else [])
    for key, column in (("values", given), ("weights", weights)):
        if isinstance(column, str) or not isinstance(column, Sequence) or not column:
            raise refusal(f"{path}.{key}", f"expected a list, given {shown(column)}")
    values = [place.number(value, "values") for value in given]
    shares = [parse(weight, "1", f"{path}.weights") for weight in weights]
    if len(shares) != len(values):
        said = f"{len(shares)} of them for {len(values)} values; expected one for each"
        raise refusal(f"{path}.weights", said)
    if min(shares) < 0 or max(shares) <= 0:
        least = f"expected weights of at least 0, one of them above, given {min(shares):g}"
        raise refusal(f"{path}.weights", least)
    parts = np.array(shares) / max(shares)  # so that no sum overflows
    parts /= parts.sum()
    edges, column = np.cumsum(parts), np.array(values)
    words = " or ".join(
        f"{place.show(value)} ({part:.3g})" for value, part in zip(values, parts, strict=True)
    )
    last = len(values) - 1
    return Distribution(
        lambda share: column[np.minimum(np.searchsorted(edges, share, side="right"), last)], words
    )


def _shape(place: Place, written: Mapping[str, Any], known: Collection[str]) -> str:
    shape = written.get("shape", next(iter(known)))
    if not isinstance(shape, str) or shape not in known:
        raise unknown(f"{place.path}.shape", str(shape), "shape here", known)
    return shape


def _uniform(low: float, high: float, peak: float, share: np.ndarray) -> np.ndarray:
    return low + (high - low) * share


def _loguniform(low: float, high: float, peak: float, share: np.ndarray) -> np.ndarray:
    return low * (high / low) ** share


def _triangular(low: float, high: float, peak: float, share: np.ndarray) -> np.ndarray:
    below = (peak - low) / (high - low if high > low else 1.0)
    rising = low + np.sqrt(share * (high - low) * (peak - low))
    falling = high - np.sqrt((1.0 - share) * (high - low) * (high - peak))
    return np.where(share < below, rising, falling)


SHAPES = {"uniform": _uniform, "loguniform": _loguniform, "triangular": _triangular}
READERS = {"values": _listed, "around": _around, "mean": _normal, "from": _between}


# ---- Sobol indices ------------------------------------------------------------------------------


class Indices(NamedTuple):
    """The share of a variance that each input explains, [..., input], with errors."""

    first: np.ndarray  # of the input by itself
    total: np.ndarray  # of the input with all its interactions
    first_error: np.ndarray  # half width of the 95 % interval
    total_error: np.ndarray


def points(inputs: int, draws: int, seed: int) -> np.ndarray:
    """Return points in the unit cube, one row per input: two sets of draws and their crossings.

    The first ``draws`` columns are two independent halves, A and B, of a scrambled Sobol sequence.
    Then, for each input in turn, A is repeated with that input taken from B.

    Assumes: ``draws`` is a power of two, so that the sequence is balanced.
    Source: Saltelli et al. 2010 (doi 10.1016/j.cpc.2009.09.018), section 5.
    """
    check_draws(draws, seed)
    sequence = qmc.Sobol(2 * inputs, rng=np.random.default_rng(seed), bits=64)
    first, second = sequence.random(draws // 2).T.reshape(2, inputs, -1)
    crossed = np.repeat(first[None], inputs, axis=0)
    each = np.arange(inputs)
    crossed[each, each] = second
    return np.concatenate([first, second, *crossed], axis=1)


def check_draws(draws: int, seed: int) -> None:
    """Check that a number of draws is a power of two, and a seed a whole number."""
    for name, value in (("samples", draws), ("seed", seed)):
        if isinstance(value, bool) or not isinstance(value, int) or value < 0:
            raise refusal(name, f"expected a whole number of at least 0, given {shown(value)}")
    most = BOUNDS["draws"]
    if draws < 4 or draws & (draws - 1) or draws > most:
        near = 1 << max(2, min(draws, most).bit_length() - 1)
        said = f"expected a power of two from 4 to {most:,}, such as {near:,}, given {draws:,}"
        raise refusal("samples", said)


def indices(values: np.ndarray, inputs: int) -> Indices:
    """Return the first- and total-order indices of a function at ``points``, [..., point].

    S_i = mean(f(B) (f(AB_i) - f(A))) / V, T_i = mean((f(A) - f(AB_i))^2) / 2V, where V is the
    variance at A and B and f has its mean subtracted. The errors are those of independent draws;
    those of a Sobol sequence are smaller. Where the function does not vary, all indices are 0.
    Source: Saltelli et al. 2010 (doi 10.1016/j.cpc.2009.09.018), Table 2 (b) and (f).
    """
    draws = values.shape[-1] // (inputs + 2)
    shape = (*values.shape[:-1], inputs + 2, draws)
    pages = values.reshape(shape)
    mean = pages[..., :2, :].mean(axis=(-2, -1), keepdims=True)
    first, second, crossed = np.split(pages - mean, [1, 2], axis=-2)
    variance = 0.5 * (first**2 + second**2)  # terms of the variance, draw by draw
    size = variance.mean(axis=-1, keepdims=True)
    still = size <= (SAME * mean) ** 2
    scale = np.where(still, 1.0, size)

    def share(terms: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        terms = np.where(still, 0.0, terms / scale)
        found = terms.mean(axis=-1, keepdims=True)
        # the error of a ratio: noise common to the terms and the variance largely cancels
        error = (terms - found * variance / scale).std(axis=-1) / np.sqrt(draws)
        return found[..., 0], CERTAIN * error

    alone, alone_error = share(second * (crossed - first))
    total, total_error = share(0.5 * (first - crossed) ** 2)
    return Indices(alone, total, alone_error, total_error)
