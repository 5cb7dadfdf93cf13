"""Memory formulas: values that can be checked by hand, and the counts of an event simulation."""

from collections.abc import Iterator
from types import SimpleNamespace
from typing import Any

import jax
import numpy as np
import pytest

from jaxroof.estimators.training.stage_buffers import distinct_matrices
from jaxroof.estimators.training.stage_states import padded_vocabulary
from jaxroof.formulas import memory_activations as saved
from jaxroof.formulas import memory_in_flight as flights
from jaxroof.formulas import memory_layout as layout
from tools.rows.plans import workspace

GPT3 = {"heads": 96.0, "sequence": 2048.0, "context": 1.0, "microbatch": 1.0}
HIDDEN, FEEDFORWARD, MIB = 12288.0, 49152.0, 2.0**20


def block(tensor: float, shards: float) -> float:
    """Return what a GPT-3 block keeps, with both dropouts and unfused scores."""
    tokens = 2048.0
    norms = (tokens, HIDDEN, shards)
    scores = saved.score_activations(
        **GPT3, tensor=tensor, attention_dropout=1.0, activation_bytes=2.0
    )
    return float(
        2.0 * saved.norm_activations(*norms, 2.0)
        + saved.qkv_activations(tokens, 96.0, 96.0, 128.0, 0.0, tensor, 2.0)
        + saved.attention_output(tokens, 96.0, 128.0, tensor, 2.0)
        + scores
        + saved.dropout_masks(*norms, 1.0)
        + saved.mlp_activations(tokens, FEEDFORWARD, 0.0, tensor, 2.0, 2.0)
    )


BLOCKS = [(1.0, 1.0, 2_868_903_936), (8.0, 1.0, 578_813_952), (8.0, 8.0, 358_612_992)]


@pytest.mark.parametrize(("tensor", "shards", "expected"), BLOCKS)
def test_check_values_of_the_gpt3_block(tensor: float, shards: float, expected: float) -> None:
    """Section 8, which is Korthikanti 2022, Table 2."""
    assert block(tensor, shards) == expected


# ---- Layers and microbatches --------------------------------------------------------------------


@pytest.mark.parametrize("chunks", [1, 2, 3, 4, 7, 12, 16, 64])
@pytest.mark.parametrize("prediction", [0, 1])
@pytest.mark.parametrize("layers", [1, 4, 61, 80, 94, 126])
def test_chunks_are_alike_but_for_the_ends(layers: int, prediction: int, chunks: int) -> None:
    found = layout.alike_chunks(float(layers), float(prediction), float(chunks))
    assert chunks * found.each - found.first_lacks - found.last_lacks == layers
    assert found.each == int(found.each)
    assert 0 <= found.first_lacks <= found.last_lacks
    if layers % chunks == 0:
        assert found == (layers / chunks, 0.0, 0.0)
    elif (layers + 2) % chunks == 0:  # embedding and head take the place of a layer each
        assert found == ((layers + 2) / chunks, 1.0, 1.0)


def passes(microbatches: int, chunks: int, group: int) -> Iterator[int]:
    """Yield the chunk of every forward pass of a stage, in order."""
    for start in range(0, microbatches, group):
        for chunk in range(chunks):
            for _ in range(start, min(start + group, microbatches)):
                yield chunk


@pytest.mark.parametrize("microbatches", [4, 7, 8, 16])
@pytest.mark.parametrize("chunks", [2, 3])
@pytest.mark.parametrize("group", [4, 5])
@pytest.mark.parametrize("early", [0, 1])
def test_chunks_in_flight_are_counted_one_by_one(
    microbatches: int, chunks: int, group: int, early: int
) -> None:
    order = list(passes(microbatches, chunks, group))
    for stage in range(4):
        warm = min(len(order), 2 * (4 - stage - 1) + (chunks - 1) * group + 1 + early)
        for chunk in range(chunks + 1):
            given = (stage, 4.0, chunks, microbatches, group, early)
            under_way = flights.passes_in_flight(*map(float, given))
            found = flights.in_flight_from_chunk(under_way, float(chunk), float(chunks))
            assert found == sum(passing >= chunk for passing in order[:warm])


@pytest.mark.parametrize("chunks", range(1, 9))
@pytest.mark.parametrize("layers", range(1, 20))
def test_even_chunks_agree_with_one_another(chunks: int, layers: int) -> None:
    order = [*range(chunks - 2, 0, -1), chunks - 1, 0][-chunks:]  # of who has one more
    more = sorted(order[: layers % chunks])
    extra = layout.first_extra_chunk(float(layers), float(chunks))
    assert extra == (more[0] if more else max(chunks - 1, 1))
    if layers >= chunks:
        each = [layers // chunks + (chunk in more) for chunk in range(chunks)]
        every = np.arange(float(layers))
        place = np.searchsorted(np.cumsum(each), every, side="right")
        np.testing.assert_array_equal(
            layout.chunk_of_layer(every, float(layers), float(chunks)), place
        )


def test_the_first_chunk_at_or_behind_a_virtual_stage() -> None:
    for pipeline, interleave in ((1, 1), (3, 2), (4, 5)):
        for virtual in range(pipeline * interleave + 2):
            for stage in range(pipeline):
                of = [chunk * pipeline + stage for chunk in range(interleave)]
                expected = sum(place < virtual for place in of)
                given = map(float, (virtual, stage, pipeline, interleave))
                assert layout.first_chunk_from(*given) == expected


def test_in_flight_by_schedule() -> None:
    stage = np.arange(4.0)
    one_by_one = flights.in_flight_one_by_one(stage, 4.0, 3.0)
    np.testing.assert_array_equal(one_by_one, [3, 3, 2, 1])
    np.testing.assert_array_equal(flights.pending_zero_bubble(stage, 2.0), [0, 1, 2, 2])


# ---- Buffers ------------------------------------------------------------------------------------


def test_a_shape_counts_once() -> None:
    same = [(2.0, 3.0, 0.0), (2.0, 3.0, 4.0), (2.0, 3.0, 1.0), (3.0, 2.0, 1.0), (5.0, 1.0, 0.0)]
    assert distinct_matrices(same) == 12.0


WORKSPACES = [  # whether Transformer Engine runs, PyTorch's is set, expected [MiB]: section 10.2
    ("H100", True, False, 96.0),
    ("A100", True, False, 20.25),
    ("A100", True, True, 68.0),
    ("H100", False, False, 64.0),
]


@pytest.mark.parametrize(("name", "engine", "large", "expected"), WORKSPACES)
def test_workspaces(name: str, engine: bool, large: bool, expected: float) -> None:
    assert workspace(name, engine, large)[0] == expected * MIB


@pytest.mark.parametrize("tensor", [1.0, 3.0, 8.0])
def test_a_padded_vocabulary_divides(tensor: float) -> None:
    asked: Any = SimpleNamespace(
        model=SimpleNamespace(vocabulary=50257.0),
        plan=SimpleNamespace(tensor=tensor),
        states=SimpleNamespace(vocabulary_multiple=128.0, extra_token=0.0),
    )
    padded = float(padded_vocabulary(asked))
    assert padded % (128.0 * tensor) == 0.0
    assert 0.0 <= padded - 50257.0 < 128.0 * tensor


def test_jax_and_numpy_agree() -> None:
    def held(stage: Any, *sizes: float) -> Any:
        return flights.in_flight_from_chunk(flights.passes_in_flight(stage, *sizes), 1.0, 3.0)

    at = np.arange(5.0)
    for formula, given in (
        (layout.alike_chunks, (at + 80.0, 1.0, 5.0)),
        (held, (at, 5.0, 3.0, 17.0, 4.0, 1.0)),
    ):
        np.testing.assert_array_equal(jax.jit(formula)(*given), formula(*given))
