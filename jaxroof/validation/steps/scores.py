"""The error of predicted step times against measured ones, by source, chip and regime."""

import collections
from collections.abc import Mapping, Sequence
from typing import NamedTuple

import numpy as np

from jaxroof.errors import InputError
from jaxroof.estimators.training.interval import REGIMES
from jaxroof.validation.measured_rows import Row
from jaxroof.validation.memory.scores import Reason
from jaxroof.validation.steps.prediction import OWN, StepAnswer, answers
from jaxroof.validation.steps.sources import SOURCES, packaged
from jaxroof.validation.steps.step_rows import chip_of

Answers = Mapping[str, Sequence[StepAnswer]]  # by source


class StepScore(NamedTuple):
    """Errors over the rows of one source, chip and regime, in per cent."""

    source: str
    chip: str
    regime: str
    rows: int
    median: float  # of the absolute errors
    mean: float
    p90: float
    bias: float  # median of the signed errors
    covered: float  # rows whose 80 % interval holds the measured time


def packaged_answers(source: str | None = None) -> dict[str, list[StepAnswer]]:
    """Return every packaged row with its prediction, or those of one source, all in one call.

    Raises: InputError for a source that there is not, with the nearest name.

    >>> len(packaged_answers("mt_nlg_a100")["mt_nlg_a100"])
    3
    """
    names = list(SOURCES) if source is None else [source]
    tables = {name: packaged(name).rows for name in names}
    found = iter(answers(row for rows in tables.values() for row in rows))
    return {name: [next(found) for _ in rows] for name, rows in tables.items()}


def kind_of(row: Row) -> str:
    """Return the chip of a row as scores name it."""
    try:
        chip = chip_of(row)
    except InputError:  # a chip of the user's, which a file of theirs describes
        return row.cells["system"]
    return {"A100": "A100 80", "H800": "H100"}.get(chip, chip)


def scores(found: Answers) -> list[StepScore]:
    """Return the errors by source, chip and regime, in the order of the rows.

    >>> [one.rows for one in scores(packaged_answers("mt_nlg_a100"))]
    [3]
    """
    groups: dict[tuple[str, str, str], list[StepAnswer]] = collections.defaultdict(list)
    for source, rows in found.items():
        for one in rows:
            if one.error is not None:
                groups[source, kind_of(one.row), one.regime].append(one)
    return [_score(key, some) for key, some in groups.items()]


def regime_scores(found: Answers) -> list[StepScore]:
    """Return the errors by regime over all sources, and over all rows.

    >>> [one.regime for one in regime_scores(packaged_answers("mt_nlg_a100"))]
    ['not calibrated', 'all']
    """
    every = [one for rows in found.values() for one in rows if one.error is not None]
    made = []
    words = [one.words for one in REGIMES]
    for regime in [*words, *(one + OWN for one in words)]:
        some = [one for one in every if one.regime == regime]
        if some:
            made.append(_score(("all", "", regime), some))
    return [*made, _score(("all", "", "all"), every)] if every else []


def _score(key: tuple[str, str, str], some: Sequence[StepAnswer]) -> StepScore:
    errors = 100.0 * np.array([one.error for one in some], np.float64)
    sizes = np.abs(errors)
    numbers = (np.median(sizes), np.mean(sizes), np.quantile(sizes, 0.9), np.median(errors))
    median, mean, p90, bias = map(float, numbers)
    covered = 100.0 * float(np.mean([one.covered for one in some]))
    return StepScore(*key, len(some), median, mean, p90, bias, covered)


def reasons(found: Answers) -> list[Reason]:
    """Return why rows were not answered, the commonest reason first."""
    counted = [
        Reason(source, reason, rows)
        for source, some in found.items()
        for reason, rows in collections.Counter(one.reason for one in some if one.reason).items()
    ]
    return sorted(counted, key=lambda one: -one.rows)


def worst(found: Answers, most: int = 5) -> list[tuple[str, StepAnswer]]:
    """Return the rows that are furthest off, one of each configuration, with their source."""
    every = [(source, one) for source, some in found.items() for one in some if one.error]
    seen: set[tuple[str, str]] = set()
    kept = []
    for source, one in sorted(every, key=lambda pair: -abs(np.log1p(pair[1].error or 0.0))):
        group = one.row.cells.get("split_group", one.row.cells["row_id"])
        if (source, group) not in seen:
            seen.add((source, group))
            kept.append((source, one))
    return kept[:most]


SMALL = 0.005  # share below which a part is not worth a word


def largest_parts(parts: Mapping[str, float], most: int = 3) -> list[tuple[str, float]]:
    """Return the largest parts, each with its share of all.

    >>> largest_parts({"time_compute": 3.0, "time_bubble": 1.0}, 1)
    [('time_compute', 0.75)]
    """
    total = sum(parts.values())
    ordered = sorted(parts.items(), key=lambda part: -part[1])
    return [(name, value / total) for name, value in ordered[:most] if value > SMALL * total]
