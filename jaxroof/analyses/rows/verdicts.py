"""Counts of the feasible rows of a file, and of the verdicts that refused the others."""

import dataclasses
from collections.abc import Collection, Mapping
from typing import Any

import numpy as np

from jaxroof.errors import listing

FEASIBLE = "feasible"


@dataclasses.dataclass(eq=False)
class Verdicts:
    """Counts of the rows with results, of the feasible ones, and of the verdicts on the others.

    A flag that is false in some feasible row is not a verdict: its count becomes minus infinity.
    """

    answered: int = 0
    feasible: int | None = None  # None if the estimator does not report feasibility
    failed: dict[str, float] = dataclasses.field(default_factory=dict)  # rows, by flag

    def add(self, columns: Mapping[str, np.ndarray], passed: Collection[int]) -> None:
        """Count rows by their results; rows at the positions ``passed`` have none."""
        good = np.ones(len(next(iter(columns.values()), ())), bool)
        good[[row for row in passed if row < len(good)]] = False
        self.answered += int(good.sum())
        if FEASIBLE not in columns:
            return
        feasible = columns[FEASIBLE] & good
        self.feasible = (self.feasible or 0) + int(feasible.sum())
        for name, column in columns.items():
            if column.dtype == bool and name != FEASIBLE:
                count = -np.inf if np.any(feasible & ~column) else np.sum(good & ~column)
                self.failed[name] = self.failed.get(name, 0.0) + float(count)

    @property
    def refused(self) -> dict[str, int]:
        """Return how many rows each verdict refuses, largest first."""
        order = sorted(self.failed.items(), key=lambda one: -one[1])
        return {name: int(count) for name, count in order if count > 0}

    @property
    def attrs(self) -> dict[str, Any]:
        """Return the counts by name; only ``answered`` if the estimator gives no verdicts."""
        if self.feasible is None:
            return {"answered": self.answered}
        counts = {"answered": self.answered, "feasible": self.feasible}
        return {**counts, "refused": self.refused}

    @property
    def sentence(self) -> str:
        """Return how many rows are feasible and what refused the others; may be empty."""
        if self.feasible is None or not self.answered:
            return ""
        are = "is" if self.feasible == 1 else "are"
        said = f" {self.feasible:,} of {rows_words(self.answered)} {are} feasible"
        refused = [f"{name} fails at {count:,}" for name, count in self.refused.items()]
        return f"{said}: {listing(refused)}." if refused else f"{said}."


def rows_words(rows: int) -> str:
    """Return a number of rows in words."""
    return f"{rows:,} row" + ("" if rows == 1 else "s")
