"""Every estimator with its recipes, its example, and which of its numbers may take any value."""

import dataclasses
import enum
from collections.abc import Iterator
from typing import Any, NamedTuple

import pytest

import jaxroof as jr
from jaxroof import estimators
from jaxroof.dependence import dtypes
from jaxroof.errors import InputError
from jaxroof.records import checked, is_quantity, leaves
from jaxroof.settings import variants


class Law(NamedTuple):
    """One estimator and one recipe of it."""

    estimator: jr.Estimator
    recipe: Any


SLOW = (  # recipes whose programs are long, each beside a like one that is held to the laws daily
    ("limits", "thresholds"),
    ("thresholds",),
    ("pipeline", "distir-b"),
    ("pipeline", "distir-a-cold"),
    ("pipeline", "distir-a-real"),
    ("pipeline", "physical"),
    ("published", "1d", "unfused"),
    ("published", "1d", "recompute"),
    ("training",),  # beside stage_memory; its own laws are in estimators/training/test_step.py
)
DEFAULT_ALONE = (  # estimators of which the default recipe alone is held to the laws daily
    "mfu",  # it divides model_flops, whose every recipe is
    "training",  # its programs are long, and its choices are those of terms that golden rows hold
    "stage_memory",
    "tpu_training",
    *("serving", "serving_prefill", "serving_decode"),  # golden rows hold what they read of it
    "model_size",  # the parameters that model_flops counts, whose every recipe is
)
DAILY = 1  # recipe of an operator: golden rows hold all of them, and -m slow the laws
ALIKE = ("y", "z", "xz", "yz")  # placements over other axes of a mesh than x and xy, by one formula


def laws(searched: bool = True) -> Iterator[Any]:
    """Yield every estimator with its recipes; with the default one alone where it is searched."""
    for name in estimators.names():
        estimator = estimators.estimator(name)
        every = variants(estimator.recipe)
        some = every if searched or estimator.plan is None else [estimator.recipe]
        for number, recipe in enumerate(some):
            members = vars(recipe).values() if recipe else ()
            chosen = [member.value for member in members if isinstance(member, enum.Enum)]
            again = name in DEFAULT_ALONE and recipe != estimator.recipe
            again |= number >= DAILY and estimator.plan is None
            again |= name in ("array", "contraction") and chosen[0] in ALIKE
            marks = [pytest.mark.slow] if {(name, *chosen), (name,)} & {*SLOW} or again else []
            yield pytest.param(Law(estimator, recipe), id="-".join([name, *chosen]), marks=marks)


def example(law: Law) -> Any:
    """Return the example of an estimator; skip a recipe that its rules refuse."""
    assert law.estimator.example is not None, "an example says how to ask, and is held to the laws"
    inputs = checked(law.estimator.example())
    try:
        report = dtypes(lambda asked: law.estimator.evaluate(asked, law.recipe), inputs)
    except InputError as error:
        assert law.recipe != law.estimator.recipe, "the example answers by default"
        pytest.skip(f"no such recipe: {error}")
    for record in (law.estimator.inputs, type(report)):  # every number says what it is
        for field in dataclasses.fields(record):
            assert not is_quantity(field) or field.metadata["doc"].endswith("."), field.name
    return inputs


def smooth(inputs: Any) -> dict[str, Any]:
    """Return the numbers that may take any value beside their own."""
    kept = {}
    for path, field, value in leaves(inputs):
        if not field.metadata["whole"] and float(value) > 0.0:
            kept[path] = value
    return kept
