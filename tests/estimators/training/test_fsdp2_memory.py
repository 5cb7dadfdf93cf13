"""Memory under FSDP2: every term of the golden rows, and the measured peaks."""

import dataclasses
import statistics

import jax
import numpy as np
import pytest
import training_memory as golden

from jaxroof.estimators.training.other_software import (
    Ends,
    Fsdp2Loss,
    Fsdp2Memory,
    Fsdp2Recipe,
    Fsdp2Recompute,
    fsdp2_memory,
)

RUNS = {row["row_id"]: row for row in golden.rows("torchtitan_logs")}
ROWS = {row["row_id"]: row for row in golden.rows("memory_fsdp2")}
TERMS = [field.name for field in dataclasses.fields(Fsdp2Memory)]
SHAPE = {
    "layers": "layers", "hidden": "hidden", "feedforward": "ffn", "heads": "heads",
    "kv_heads": "kv_heads", "vocabulary": "vocab",
}  # fmt: skip


def found(name: str, traced: bool = False) -> Fsdp2Memory:
    run = RUNS[name]
    settings = dict(part.split("=", 1) for part in run["settings"].split("; "))
    given = {field: int(run[column]) for field, column in SHAPE.items()}
    given["head_size"] = int(settings.get("head_size", given["hidden"] // given["heads"]))
    given["qk_norm"] = int(settings.get("qk_norm", 0))
    degrees = {"data": "dp", "tensor": "tp", "context": "cp", "microbatch": "mbs"}
    plan = {field: float(run[column]) for field, column in degrees.items()}
    inputs, recipe = golden.step(given, {"sequence": run["seq"], **plan}, {})
    choices = Fsdp2Recipe(
        recompute=Fsdp2Recompute(settings["recompute"]),
        loss=Fsdp2Loss(settings["loss"]),
        ends=Ends(settings["ends"]),
        compiled=settings["compile"] != "no",
    )
    evaluate = jax.jit(fsdp2_memory, static_argnums=(1, 2)) if traced else fsdp2_memory
    return evaluate(inputs, recipe, choices)


def test_every_term() -> None:
    for name, row in ROWS.items():
        memory = found(name)
        assert {term: float(getattr(memory, term)) for term in TERMS} == {
            term: float(row[term]) for term in TERMS
        }, name


def test_measured_peaks() -> None:
    """The sheet: 3.8 % mean, 9.3 % at most, of 18 reserved peaks; the active one to 1 %."""
    kinds = {"torch active peak": "active", "torch reserved peak": "reserved"}
    errors: dict[str, list[float]] = {"active": [], "reserved": []}
    for name, row in ROWS.items():
        number = kinds[row["kind"]]
        error = float(getattr(found(name), number)) / float(row["measured"]) - 1.0
        errors[number].append(100.0 * abs(error))
    assert [len(some) for some in errors.values()] == [1, 18]
    assert errors["active"][0] <= 1.0
    assert statistics.mean(errors["reserved"]) <= 3.85
    assert max(errors["reserved"]) <= 9.35


@pytest.mark.parametrize("name", ["titanlog-08", "titanlog-15"])
def test_jax_and_numpy_agree(name: str) -> None:
    ours, theirs = found(name), found(name, traced=True)
    for term in TERMS:
        np.testing.assert_allclose(getattr(theirs, term), getattr(ours, term), rtol=1e-12)
