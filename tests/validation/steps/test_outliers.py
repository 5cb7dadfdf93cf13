"""Rows far from the others: found whatever their size, and not among many that scatter."""

import numpy as np

from jaxroof.validation.steps.outliers import FAR, outliers


def test_a_wrong_unit_is_found_in_either_direction():
    errors = np.array([0.1, 0.15, np.log(1e-4), 0.12, 0.2, np.log(1e3)])
    assert outliers(errors, 0.066).tolist() == [2, 5]


def test_nothing_is_odd_within_what_rows_scatter_anyhow():
    errors = np.array([0.0, 0.0, 0.0, 0.0, 0.9 * FAR * 0.066])
    assert outliers(errors, 0.066).size == 0
    assert outliers(errors, 0.01).tolist() == [4]
    assert outliers(errors[-3:], 0.01).size == 0, "three rows have no odd one"


def test_many_normal_rows_have_few_odd_ones():
    draws = np.random.default_rng(0).normal(size=20_000)
    assert outliers(draws, 0.0).size <= 2
