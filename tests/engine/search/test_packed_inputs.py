"""Inputs as few arrays, and back."""

import jax
import numpy as np

import jaxroof as jr
from jaxroof.engine.search.fold import PackedInputs
from jaxroof.records import leaves, replace_at


def test_there_and_back() -> None:
    """Numbers and columns come back at their places, and equal structures share one program."""
    inputs = jr.Inputs(model=jr.model("gpt3-1t"), system=jr.system("b200-nvs8"), global_batch=512)
    wide = replace_at(inputs, "system.hbm_bandwidth", np.linspace(1e12, 8e12, 4))
    packed = PackedInputs.of(wide)
    assert packed.numbers.shape == (len(list(leaves(wide))) - 1,)
    assert len(packed.columns) == 1
    for (path, _, value), (_, _, back) in zip(leaves(wide), leaves(packed.inputs()), strict=True):
        np.testing.assert_array_equal(value, back, err_msg=path)
    other = PackedInputs.of(replace_at(wide, "global_batch", 1024.0))
    assert jax.tree.structure(packed) == jax.tree.structure(other)
