"""The training that a number of days is of, in words."""

import json

import numpy as np
import xarray as xr

PATHS = ("training_tokens", "model.training_tokens")  # the first that is given counts
TRILLION = 1e12


def tokens_sentence(data: xr.Dataset, tokens: float | None = None) -> str:
    """Return the tokens that the days of some results are of, empty where nothing says.

    ``tokens`` are those of a model that is on an axis.

    >>> tokens_sentence(xr.Dataset(attrs={"inputs": '{"model.training_tokens": 15.6e12}'}))
    'Days are of a training on 15.6 T tokens.'
    """
    known = json.loads(data.attrs.get("inputs", "{}"))
    found = next((known[path] for path in PATHS if path in known), tokens)
    if found is None or not np.isfinite(found):
        return ""
    return f"Days are of a training on {found / TRILLION:.4g} T tokens."
