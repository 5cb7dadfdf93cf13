"""Steps of MLPs measured on one to four GPUs (PyTorch, data parallel) beside simulated ones.

A ratio is measured over simulated: above 1 the simulation promises more than the machine gave.
"""

import csv
import functools
import pathlib

import jax
import jax.numpy as jnp
import numpy as np
import pandas as pd
import xarray as xr

from jaxroof.catalog.lookup import system as named
from jaxroof.catalog.models import Mlp
from jaxroof.catalog.system import System
from jaxroof.estimators.mlp_pipeline.inputs import Inputs, Plan
from jaxroof.estimators.mlp_pipeline.recipe import Profile, Recipe
from jaxroof.estimators.mlp_pipeline.step import pipeline

SOURCE = (
    "forward and backward of a step with PyTorch DDP, median of 100, as released with DistIR "
    "(github.com/microsoft/dist-ir; Santhanam et al. 2021, arXiv 2111.05426); 54 of 81 rows"
)
_WHOLE = ("gpus", "layers", "global_batch", "hidden")
_ABOUT = {  # variable: unit, meaning
    "gpus": ("1", "GPUs, each a replica"),
    "layers": ("1", "Weight matrices"),
    "global_batch": ("sample", "Samples of one step"),
    "hidden": ("1", "Width of every layer"),
    "measured": ("s", "Measured time of a step"),
    "published": ("s", "Simulated time as published, to 0.01 ms"),
    "simulated": ("s", "Simulated time"),
    "measured_throughput": ("sample/s", "Measured samples a second"),
    "simulated_throughput": ("sample/s", "Simulated samples a second"),
    "ratio": ("1", "Measured over simulated time"),
}


def comparison(system: System | None = None, profile: Profile = Profile.REAL) -> xr.Dataset:
    """Return every measured step and its simulated time over ``row``.

    Arguments:
        system: By default the catalogue's distir-real, with what was measured of its machine.
        profile: Whose cost model is followed; by default that of the published comparison.

    >>> data = comparison()
    >>> data.sizes["row"], data.simulated.attrs["units"]
    (54, 's')
    """
    rows = _measurements()
    sizes = {name: jnp.asarray(rows[name]) for name in _WHOLE}
    inputs = Inputs(
        model=Mlp(layers=sizes["layers"], hidden=sizes["hidden"]),
        system=named("distir-real") if system is None else system,
        gpus=sizes["gpus"],
        global_batch=sizes["global_batch"],
        plan=Plan(data=sizes["gpus"], tensor=1.0, pipeline=1.0, microbatches=1.0),
    )
    recipe = pipeline.sized_recipe(inputs, Recipe(profile))
    times = np.asarray(jax.jit(lambda given: pipeline.evaluate(given, recipe).step_time)(inputs))
    columns = rows | {
        "simulated": times,
        "measured_throughput": rows["global_batch"] / rows["measured"],
        "simulated_throughput": rows["global_batch"] / times,
        "ratio": rows["measured"] / times,
    }
    data = xr.Dataset(
        {
            name: ("row", values.astype(np.int64) if name in _WHOLE else values)
            for name, values in columns.items()
        },
        attrs={
            "title": "Data-parallel steps of MLPs: simulated against measured",
            "picture": "simulated_real",
            "source": SOURCE,
        },
    )
    for name, (unit, meaning) in _ABOUT.items():
        data[name].attrs = {"units": unit, "long_name": meaning}
    return data.set_coords(_WHOLE)


@functools.cache
def _read() -> dict[str, tuple[str, ...]]:
    """Return the columns of the file as they are written."""
    written = pathlib.Path(__file__).with_name("mlp_distir.csv")
    head, *lines = csv.reader(written.read_text(encoding="utf-8").splitlines())
    return dict(zip(head, zip(*lines, strict=True), strict=True))


def _measurements() -> dict[str, np.ndarray]:
    """Return the sizes of every row, and what was measured and simulated [s]."""
    theirs = {
        "gpus": ("world_size", 1.0),
        "layers": ("num_hidden_layers", 1.0),
        "global_batch": ("batch_size", 1.0),
        "hidden": ("hidden_dim", 1.0),
        "measured": ("real_ms", 1e-3),
        "published": ("simulated_ms", 1e-3),
    }
    cells = _read()
    return {
        name: unit * np.array(cells[column], np.float64) for name, (column, unit) in theirs.items()
    }


def correlation(first: np.ndarray, second: np.ndarray) -> tuple[float, float]:
    """Return Pearson's correlation of two columns, and Spearman's, which is that of their ranks.

    >>> [round(value, 4) for value in correlation([1.0, 2.0, 3.0], [1.0, 2.0, 9.0])]
    [0.9177, 1.0]
    """
    both = pd.DataFrame({"first": first, "second": second})
    pearson, spearman = (float(np.corrcoef(one.T)[0, 1]) for one in (both, both.rank()))
    return pearson, spearman
