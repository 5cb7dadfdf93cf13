"""Laws of recurrent layers; tests of golden rows hold their values."""

import dataclasses
from typing import Any

import jax
import numpy as np
import pytest

from jaxroof.catalog.architecture import Architecture
from jaxroof.catalog.lookup import training_system
from jaxroof.estimators.training.inputs import TrainingInputs, TrainingPlan, planned
from jaxroof.estimators.training.layer.operation import (
    Kept,
    Sizes,
    Tokens,
    Work,
    products,
    seconds,
    weights,
)
from jaxroof.estimators.training.layer.recurrent import recurrence, token_flops
from jaxroof.estimators.training.rates import rates
from jaxroof.estimators.training.recipe import Recurrence, TrainingRecipe
from jaxroof.records import with_named_absences

SIZES = {
    Recurrence.MAMBA: {"heads": 64.0, "head_size": 64.0, "groups": 8.0, "state": 128.0},
    Recurrence.DELTA: {
        "key_heads": 16.0, "value_heads": 32.0, "key_size": 128.0, "value_size": 128.0,
    },
    Recurrence.KDA: {"heads": 32.0, "head_size": 128.0},
}  # fmt: skip
STATES = {
    Recurrence.MAMBA: "state",
    Recurrence.DELTA: "value_size",
    Recurrence.KDA: "head_size",
}
every_kind = pytest.mark.parametrize("kind", SIZES)


def asked_of(kind: Recurrence, microbatch: float = 1.0, tensor: float = 1.0, **sizes: Any):
    """Return a step of a model whose mixers are all recurrent, and its recipe."""
    fields = {f"{kind.value}_{name}": size for name, size in (SIZES[kind] | sizes).items()}
    model = Architecture(
        layers=4.0, hidden=2048.0, feedforward=8192.0, heads=16.0, kv_heads=16.0, head_size=128.0,
        vocabulary=1024.0, sequence=4096.0, **{f"{kind.value}_layers": 4.0}, **fields,
    )  # fmt: skip
    inputs = TrainingInputs(
        model=model,
        system=training_system("h100-nvs8"),
        global_batch=8.0,
        plan=TrainingPlan(microbatch=microbatch, tensor=tensor),
    )
    return with_named_absences(inputs), TrainingRecipe(recurrence=kind)


def work_of(kind: Recurrence, **changed: Any) -> Work:
    """Return what the seconds of a recurrent layer follow from."""
    inputs, recipe = asked_of(kind, **changed)
    step = planned(inputs, recipe)
    group = step.plan.microbatch * step.model.sequence
    tokens = Tokens(group, group, group / step.plan.tensor, 0.0, 0.0, 0.0)
    return Work(step.model, step.plan, rates(inputs, recipe), inputs.software, tokens)


def kept_of(kind: Recurrence, **changed: Any) -> Kept:
    """Return what the saved bytes of a recurrent layer follow from."""
    inputs, recipe = asked_of(kind, **changed)
    step = planned(inputs, recipe)
    tokens = step.plan.microbatch * step.model.sequence
    return Kept(step, recipe, Sizes(tokens, 2.0 * tokens * step.model.hidden, 1.0, 0.0))


def operations(model):
    """Return the operations of the only kind of recurrent layer that a model has."""
    ((_, layers, found),) = recurrence(model)
    assert layers == 4.0
    return found.values()


def time(kind: Recurrence, **changed: Any):
    """Return the seconds of a recurrent layer, forward and backward."""
    work = work_of(kind, **changed)
    found = [seconds(one, work) for one in operations(work.model) if one.time]
    return sum(one.forward for one in found), sum(one.backward for one in found)


def memory(kind: Recurrence, **changed: Any) -> tuple[float, float]:
    """Return the bytes that a recurrent layer keeps, and those while its scan runs."""
    kept = kept_of(kind, **changed)
    found = operations(kept.inputs.model)
    saved = sum(part.bytes(kept) for one in found for part in one.saved)
    return saved, sum(one.momentary(kept) for one in found if one.momentary)


def test_a_model_without_recurrent_layers_has_none_of_their_operations():
    inputs, recipe = asked_of(Recurrence.KDA)
    model = planned(inputs, dataclasses.replace(recipe, recurrence=Recurrence.NONE)).model
    assert recurrence(model) == []
    assert token_flops(model) == 0.0


@every_kind
def test_flop_are_linear_in_tokens_and_divided_by_tensor_ranks(kind):
    def flops(**changed):
        work = work_of(kind, **changed)
        return sum(one.flops(work).forward for one in operations(work.model) if one.flops)

    assert flops() == pytest.approx(4096.0 * token_flops(work_of(kind).model))
    assert flops(microbatch=3.0) == pytest.approx(3.0 * flops())
    assert flops(tensor=4.0) == pytest.approx(flops() / 4.0)


@every_kind
def test_a_wider_state_is_never_faster_nor_smaller(kind):
    found = []
    for state in (16.0, 64.0, 128.0, 192.0, 256.0, 512.0):
        wider = {STATES[kind]: state}
        found.append((*time(kind, **wider), *memory(kind, **wider)))
    assert np.all(np.diff(found, axis=0) >= 0.0)


@every_kind
def test_the_flop_of_projections_are_those_of_the_matrices_that_a_layer_holds(kind):
    found = operations(work_of(kind).model)
    held = sum(weights(one._replace(vectors=type(one.vectors)())).all for one in found)
    assert sum(products(one) for one in found) == held
    assert held < sum(weights(one).all for one in found)


@every_kind
def test_formulas_are_finite_at_size_0_with_their_slopes(kind):
    nothing = dict.fromkeys(SIZES[kind], 0.0)
    model = work_of(kind, **nothing).model
    assert np.all(np.isfinite(time(kind, **nothing)))
    assert memory(kind, **nothing) == (0.0, 0.0)
    assert sum(weights(one).all for one in operations(model)) == 0.0
    for name in SIZES[kind]:

        def both(size, name=name):
            return sum(time(kind, **(nothing | {name: size})))

        assert np.isfinite(jax.grad(both)(0.0))
