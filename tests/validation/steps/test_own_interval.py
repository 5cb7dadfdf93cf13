"""The interval that one's own runs support: what it covers of synthetic and of measured rows."""

import collections

import numpy as np
import pytest

from jaxroof.estimators.training.interval import LEVEL, WITHIN_SOURCE
from jaxroof.validation.steps.own_interval import own_half_width, own_half_widths
from jaxroof.validation.steps.scores import kind_of, packaged_answers

FEW = (2, 3, 5, 12)


def left_out(errors):
    """Return the errors of values against the mean of the others."""
    rest = (np.sum(errors) - errors) / (len(errors) - 1.0)
    return errors - rest


@pytest.mark.parametrize("rows", FEW)
def test_it_covers_what_it_says_of_normal_errors(rows):
    draws = np.random.default_rng(rows).normal(0.0, 0.2, (1500, rows + 1))
    inside = [
        abs(one[-1] - np.mean(one[:-1])) < own_half_width(left_out(one[:-1]), 0.0) for one in draws
    ]
    assert 100.0 * np.mean(inside) == pytest.approx(LEVEL, abs=4.0)


def kinds_of_runs():
    """Return ln(predicted / measured) of plans of one source, chip and kind, and its place."""
    plans = collections.defaultdict(lambda: collections.defaultdict(list))
    for source, some in packaged_answers().items():
        for one in some:
            if one.step is not None and one.error is not None:
                few = one.step.settings["precision"] != "bf16"
                place = 2 if one.step.routed else int(few)
                shape = frozenset(one.step.settings.items())
                plans[source, kind_of(one.row), place][shape].append(np.log1p(one.error))
    every = [(np.array([*map(np.median, p.values())]), key[2]) for key, p in plans.items()]
    return [(errors, place) for errors, place in every if len(errors) > 2 * max(FEW)]


def test_it_covers_the_other_runs_of_a_source():
    """Plans of one source, chip and kind, some taken as one's own: most others lie inside."""
    groups = kinds_of_runs()
    assert len(groups) > 5
    draw = np.random.default_rng(1)
    for rows in FEW:
        shares = []
        for errors, place in groups:
            for _ in range(40):
                mixed = draw.permutation(errors)
                own, others = mixed[:rows], mixed[rows:]
                half = own_half_width(left_out(own), WITHIN_SOURCE[place])
                shares.append(np.mean(np.abs(others - np.mean(own)) < half))
        assert 100.0 * np.mean(shares) >= LEVEL


def test_it_is_no_narrower_than_errors_nor_than_runs_of_a_software():
    errors = np.array([0.3, -0.2, 0.1, 0.25])
    assert own_half_width(errors, 0.085) > np.quantile(np.abs(errors), LEVEL / 100.0)
    assert own_half_width(errors / 100.0, 0.085) == 0.085
    assert own_half_width(errors[:2], 0.085) > own_half_width(np.tile(errors[:2], 9), 0.085)


def test_kinds_with_too_few_plans_have_none():
    errors, kinds = np.array([0.2, -0.3, 0.4, 0.1]), np.array([0.0, 0.0, 1.0, 0.0])
    found = own_half_widths(errors, kinds, 3)
    assert found == (own_half_width(errors[kinds == 0.0], WITHIN_SOURCE[0]), 0.0, 0.0)
    assert own_half_widths(errors, kinds, 4) == (0.0, 0.0, 0.0)
