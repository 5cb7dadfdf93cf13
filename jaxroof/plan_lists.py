"""What an estimator lists: its legal plans, and the sizes of its programs."""

from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

import numpy as np


class Candidates(NamedTuple):
    """The legal plans, one column of whole numbers per field, and the counts of refused plans."""

    plans: Mapping[str, np.ndarray]
    refused: Mapping[str, int]


class ProgramSizes(NamedTuple):
    """The program sizes that points need, if an estimator's loop lengths depend on the inputs."""

    of: Callable[[Any], np.ndarray]  # inputs -> the sizes that each point needs, [points, sizes]
    fit: Callable[[Any, Any], Any]  # recipe, largest value of each size -> a recipe that fits
    exact: Callable[[Any, Any], Any]  # the same for these points only: loops of fixed length
    batch: Callable[[Any], int]  # recipe -> points of one call, enough to occupy a core
