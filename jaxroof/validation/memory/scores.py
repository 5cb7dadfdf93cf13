"""The error of predicted memory against measured rows, by source, kind and number."""

import collections
from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple

import numpy as np

from jaxroof.validation.memory.prediction import Answer, answer
from jaxroof.validation.memory.sources import SOURCES, packaged, peer_errors

Answers = Mapping[str, Sequence[Answer]]  # by source


class Score(NamedTuple):
    """Errors of one number over the rows of one kind, in per cent."""

    source: str
    kind: str
    number: str  # allocated, active, reserved or device
    rows: int
    mean: float  # of the absolute errors
    median: float
    p90: float
    largest: float
    bias: float  # mean of the signed errors


class Fill(NamedTuple):
    """Runs that ran: how many are said to fit, and how full they are said to be."""

    source: str
    rows: int
    fits: int
    least: float  # device over capacity
    mean: float
    most: float


class Reason(NamedTuple):
    """Rows that were not answered for the same reason."""

    source: str
    reason: str
    rows: int


def answers(source: str | None = None) -> dict[str, list[Answer]]:
    """Return every packaged row with its prediction, or those of one source.

    Raises: InputError for a source that there is not, with the nearest name.

    >>> len(answers("torchtitan_logs")["torchtitan_logs"])
    19
    """
    names = list(SOURCES) if source is None else [source]
    return {name: [answer(row) for row in packaged(name).rows] for name in names}


def scores(found: Answers) -> list[Score]:
    """Return the errors by source, kind of row and number, in the order of the rows.

    >>> [round(score.mean, 3) for score in scores(answers("simumax_b200"))][:2]
    [0.002, 2.639]
    """
    errors: dict[tuple[str, str, str], list[float]] = collections.defaultdict(list)
    for source, rows in found.items():
        for one in rows:
            if one.prediction is not None:
                for number, error in one.errors.items():
                    errors[source, one.prediction.kind, number].append(100.0 * error)
    return [_score(key, np.array(values)) for key, values in errors.items()]


def first_runs(found: Answers) -> list[Score]:
    """Return the errors over the first run of each configuration and accelerator.

    For a source whose rows are reruns of few configurations, which would else count many times.
    """
    kept: dict[str, list[Answer]] = {}
    for source in RERUN:
        first: dict[tuple[str, ...], Answer] = {}
        for one in found.get(source, []):
            if one.prediction is not None:
                first.setdefault(tuple(one.row.cells.get(name, "") for name in OF_A_RUN), one)
        kept[source] = list(first.values())
    return scores(kept)


RERUN = ("megatron_lm_ci_memory",)  # every night
OF_A_RUN = ("split_group", "system", "gpus")


def _score(key: tuple[str, str, str], errors: np.ndarray) -> Score:
    sizes = np.abs(errors)
    found = (np.mean(sizes), np.median(sizes), np.quantile(sizes, 0.9), np.max(sizes))
    mean, median, p90, largest = map(float, found)
    return Score(*key, len(errors), mean, median, p90, largest, float(np.mean(errors)))


def fills(found: Answers) -> list[Fill]:
    """Return, for sources that measured no memory, how many of their runs are said to fit."""
    made = []
    for source, rows in found.items():
        known = [one for one in rows if one.prediction is not None and one.capacity]
        if not known or any(one.measured for one in rows):
            continue
        full = np.array([_full(one) for one in known])
        counts = len(known), int(np.sum(full <= 1.0))
        made.append(Fill(source, *counts, float(full.min()), float(full.mean()), float(full.max())))
    return made


def _full(one: Answer) -> float:
    assert one.prediction is not None
    assert one.capacity is not None
    return one.prediction.device / one.capacity


def reasons(found: Answers) -> list[Reason]:
    """Return why rows were not answered, or not compared, the commonest reason first."""
    counted = [
        Reason(source, reason, rows)
        for source, answered in found.items()
        for reason, rows in collections.Counter(
            one.reason for one in answered if one.reason
        ).items()
    ]
    return sorted(counted, key=lambda one: -one.rows)


def worst(found: Answers, most: int = 5) -> list[tuple[str, str, Answer]]:
    """Return the rows with the largest errors, one of each configuration: source, number, row."""
    every = [
        (source, number, one)
        for source, rows in found.items()
        for one in rows
        for number in list(one.errors)[:1]
    ]
    seen: set[tuple[str, str]] = set()
    kept = []
    for source, number, one in sorted(every, key=lambda each: -abs(each[2].errors[each[1]])):
        group = one.row.cells.get("split_group", one.row.cells["row_id"])
        if (source, group) not in seen:
            seen.add((source, group))
            kept.append((source, number, one))
    return kept[:most]


def peer_score() -> Score:
    """Return the errors of SimuMax's own predictions of its rows."""
    errors = np.array(list(peer_errors().values()))
    return _score(("simumax_b200", "SimuMax's own", "allocated"), errors)


def largest_terms(one: Answer, most: int = 3) -> list[tuple[str, float]]:
    """Return the largest terms of a prediction, in words, with their bytes."""
    if one.prediction is None:
        return []
    terms: Iterable[tuple[str, float]] = one.prediction.terms.items()
    return sorted(terms, key=lambda term: -term[1])[:most]
