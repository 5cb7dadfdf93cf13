"""The loops of the fold against NumPy."""

import jax.numpy as jnp
import numpy as np
import pytest

from jaxroof.engine.search.second_pass import block_minima, running_minima

PLANS, LANES, BLOCK = 24, 3, 8
VALUES = np.random.default_rng(0).random((PLANS, LANES))


def objective(index: jnp.ndarray) -> jnp.ndarray:
    """Return one plan's values in every lane."""
    return jnp.asarray(VALUES)[index]


@pytest.mark.parametrize("running", [True, False])
def test_blocks(running: bool) -> None:
    """The minimum of each block, or of it and those before it."""
    found = block_minima(objective, jnp.asarray(PLANS), PLANS, (LANES,), BLOCK, running=running)
    expected = VALUES.reshape(-1, BLOCK, LANES).min(axis=1)
    expected = np.minimum.accumulate(expected, axis=0) if running else expected
    np.testing.assert_array_equal(found, expected)


@pytest.mark.parametrize("count", [0, 5, PLANS])
def test_plans(count: int) -> None:
    """The minimum of each plan and those before it, as far as the plans are folded."""
    found = running_minima(objective, jnp.asarray(count), PLANS, (LANES,))
    np.testing.assert_array_equal(found[:count], np.minimum.accumulate(VALUES[:count], axis=0))
