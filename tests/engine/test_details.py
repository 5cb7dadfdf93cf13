"""Details: results along a further dimension are, on axes, what they are point by point."""

import numpy as np
import pytest
import xarray as xr

import jaxroof as jr
from jaxroof import records
from jaxroof.engine.details import detail
from jaxroof.estimator import Column, Detail, Rows

TODAY = {"model": "llama3-8b", "system": "h100-nvs8", "global_batch": 64, "dp": 2, "pp": 2}
STUDY = {"model": "gpt3", "system": "b200-nvs8", "global_batch": 16, "dp": 1, "pp": 4, "mb": 2}
BLOCK = {"model": "gpt3", "system": "a100-unfused"}
MLP = {"model": "mlp-xs", "system": "distir-a", "profile": "distir-a", "plan.data": 1}
MLP |= {"plan.tensor": 1, "plan.pipeline": 2}
CASES = [  # question, estimator, settings, axes, what names the point in settings
    (jr.layers, {}, TODAY, {"plan.tensor": [1, 4], "plan.microbatch": [1, 2]}),
    (jr.layers, {}, TODAY, {"model": ["llama3-8b", "deepseek-v3"], "plan.recompute": [0, 2]}),
    (jr.layers, {"estimator": "published"}, STUDY | {"tp": 4}, {"split": ["1d", "summa"]}),
    (jr.layers, {"estimator": "published"}, STUDY, {"plan.tensor": [1, 4]}),
    (jr.layers, {"estimator": "unfused"}, BLOCK, {"plan.tensor": [1, 2, 4]}),
    (jr.stages, {}, MLP, {"plan.microbatches": [2, 4]}),
    (jr.schedule, {}, TODAY, {"plan.pipeline": [2, 4], "global_batch": [32, 64]}),
    (jr.schedule, {"estimator": "published"}, STUDY, {"plan.tensor": [4, 8]}),
]


@pytest.mark.parametrize(("question", "which", "settings", "axes"), CASES)
def test_a_detail_on_axes_is_that_of_every_point(question, which, settings, axes):
    data = question(settings, axes=axes, **which)
    dims = [dim for dim in data.dims if data[dim].attrs.get("path") in axes]
    assert len(dims) == len(axes)
    for place in np.ndindex(*(data.sizes[dim] for dim in dims)):
        here = data.isel(dict(zip(dims, place, strict=True)))
        at = {path: values[i] for (path, values), i in zip(axes.items(), place, strict=True)}
        short = {"plan.pipeline": "pp", "plan.data": "dp"}
        rest = {k: v for k, v in settings.items() if k not in {short.get(p, p) for p in at}}
        alone = question({**rest, **at}, **which)
        for name in alone.data_vars:
            ours, theirs = xr.align(here[name], alone[name], join="right")
            if theirs.dtype.kind in "UOb":
                assert (ours.values == theirs.values).all(), (name, at)
            else:
                np.testing.assert_allclose(ours, theirs, rtol=1e-12, err_msg=f"{name} {at}")


@records.record
class Cell:
    """One cell of a board."""

    value: float = records.quantity("1", "What stands there.")


def board(inputs, recipe, *, size=2):
    """Return a row of cells, each as large as the inputs."""
    values = np.asarray(inputs.value, float)[..., None] * np.arange(size)
    label = Column([f"c{i}" for i in range(size)], ("cell",), {}, label=True)
    return Rows({"value": Column(values, ("cell",)), "cell": label}, {"size": size})


def test_any_estimator_may_declare_a_detail_with_options_of_its_own():
    details = {"board": Detail(board, (Cell,))}
    own = jr.Estimator(step=lambda inputs, recipe: inputs, inputs=Cell, details=lambda: details)
    data = detail(own, "board", Cell(value=3.0), size=3)
    assert data.value.values.tolist() == [0.0, 3.0, 6.0]
    assert (data.value.attrs["long_name"], data.attrs["size"]) == ("What stands there", "3")
    many = detail(own, "board", Cell(value=3.0), axes={"value": [1.0, 2.0]}, size=3)
    assert many.value.dims == ("input_value", "cell")
    assert many.input_value.dims == ("input_value",)
    with pytest.raises(jr.InputError, match="bord: no such detail of the estimator"):
        detail(own, "bord", Cell(value=3.0))
    with pytest.raises(jr.InputError, match="value: expected one number, given 2 of them"):
        detail(own, "board", Cell(value=np.ones(2)))
