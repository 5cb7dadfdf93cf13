"""Inputs whose parameters are moved: scaled by factors, or given slopes."""

from collections.abc import Sequence
from typing import Any

import numpy as np

from jaxroof.dual import Dual
from jaxroof.records import get_at, replace_at


def scale_parameters(inputs: Any, paths: Sequence[str], factors: Any) -> Any:
    """Return the inputs with each parameter times its factor [..., parameter]."""
    for number, path in enumerate(paths):
        inputs = replace_at(inputs, path, get_at(inputs, path) * factors[..., number])
    return inputs


def with_slopes(inputs: Any, paths: Sequence[str], ways: np.ndarray) -> Any:
    """Return inputs whose parameters carry their slopes along directions [way, parameter].

    Leaves are numbers or columns of one length; slopes are those with ln(parameter).
    """
    for number, path in enumerate(paths):
        value = np.asarray(get_at(inputs, path), np.float64)
        value = value if value.ndim else value[None]
        inputs = replace_at(inputs, path, Dual(value, ways[:, number, None] * value))
    return inputs
