"""The loops of the fold against NumPy."""

import types

import jax.numpy as jnp
import numpy as np
import pytest

from jaxroof.engine.search.fold import block_minima

PLANS, LANES = 24, 3
VALUES = np.random.default_rng(0).random((PLANS, LANES))


def objective(index: jnp.ndarray) -> jnp.ndarray:
    """Return one plan's values in every lane."""
    return jnp.asarray(VALUES)[index]


@pytest.mark.parametrize(("top", "block"), [(1, 8), (2, 8), (1, 1)])
def test_blocks(top: int, block: int) -> None:
    """The minimum of each block; if only the best plan is wanted, of it and those before it."""
    fold = types.SimpleNamespace(top=top, block=block)
    found = block_minima(fold, objective, jnp.asarray(PLANS), PLANS, (LANES,))
    expected = VALUES.reshape(-1, block, LANES).min(axis=1)
    expected = np.minimum.accumulate(expected, axis=0) if top == 1 else expected
    np.testing.assert_array_equal(found, expected)
