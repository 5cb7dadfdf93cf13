"""The problems of a book on scaling: every row is answered by an estimator, arguments as data."""

import csv
import functools
import gzip
import json
import math
import re
import tomllib
from collections import defaultdict
from typing import Any

import numpy as np
import pytest
from places import GOLDEN

import jaxroof as jr
from jaxroof import estimators
from jaxroof.engine.grid.question import resolve

FOLDER = GOLDEN / "scaling_book"
MAPPED = ("calls_rooflines.toml", "calls_counting.toml")


def read_rows() -> dict[str, dict[str, Any]]:
    with gzip.open(FOLDER / "problems.csv.gz", "rt", newline="", encoding="utf-8") as file:
        return {
            row["id"]: {**row, "inputs": json.loads(row["inputs"])} for row in csv.DictReader(file)
        }


def read_calls() -> list[tuple[str, dict[str, Any]]]:
    """Return (row, how it is asked), the literals that rows share written out."""
    calls = []
    for name in MAPPED:
        path = FOLDER / name
        if not path.exists():
            continue
        tables = tomllib.loads(path.read_text(encoding="utf-8"))
        cases = tables.pop("cases", {})
        for row, call in tables.items():
            shared = cases[call["case"]] if "case" in call else {}
            calls.append((row, {**call, "with": {**shared, **call.get("with", {})}}))
    return calls


ROWS = read_rows()
CALLS = read_calls()


def settings(call: dict[str, Any], inputs: dict[str, float]) -> dict[str, Any]:
    """Return what an estimator is asked: literals, then what the row's inputs say."""
    sizes = call.get("unit", {})
    said = {path: inputs[key] * sizes.get(key, 1.0) for path, key in call.get("from", {}).items()}
    return {**call["with"], **said}


def answers(asked: dict[str, tuple[dict[str, Any], dict[str, Any]]]) -> dict[str, float]:
    """Return the answer to (call, settings) in its unit; what is asked alike is asked together.

    All columns have one length: JAX then compiles every operation once.
    """
    alike = defaultdict(list)
    for label, (call, said) in asked.items():
        texts = {path: value for path, value in said.items() if isinstance(value, str)}
        numbers = {path: value for path, value in said.items() if path not in texts}
        key = (call["ask"], tuple(sorted(texts.items())), tuple(sorted(numbers)))
        alike[key].append((label, call, numbers))
    length = max(map(len, alike.values()))
    found = {}
    for (ask, texts, paths), some in alike.items():
        every = [*some, *[some[-1]] * (length - len(some))]
        columns = {path: np.array([numbers[path] for *_, numbers in every]) for path in paths}
        estimator = estimators.estimator(ask)
        report = estimator.evaluate(*resolve(estimator, {**dict(texts), **columns})[:2])
        for number, (label, call, _) in enumerate(some):
            values = np.asarray(getattr(report, call["result"]), np.float64)
            value = values[number] if values.ndim else values
            found[label] = float(value) / call.get("per", 1.0)
    return found


@functools.cache
def found() -> dict[str, dict[str, float]]:
    """Return the answers to every row, to its inputs moved, and to its literals moved."""
    asked = {}
    for row, call in CALLS:
        inputs = ROWS[row]["inputs"]
        asked[f"said {row}"] = (call, settings(call, inputs))
        asked[f"inputs {row}"] = (call, settings(call, moved(inputs)))
        other = {**call, "with": moved(call["with"])}
        asked[f"literals {row}"] = (call, settings(other, inputs))
    kinds: dict[str, dict[str, float]] = defaultdict(dict)
    for label, value in answers(asked).items():
        kind, row = label.split()
        kinds[kind][row] = value
    return kinds


def moved(numbers: dict[str, Any]) -> dict[str, Any]:
    """Return numbers, with units or not, each times another small prime: counts stay whole."""
    primes = (2, 3, 5, 7, 11, 13, 17, 19, 23, 29, 31)
    found = {}
    for key, prime in zip(sorted(numbers), primes, strict=False):
        number = re.fullmatch(r"([0-9.e+-]+) (\S+)", str(numbers[key]))
        if number:
            found[key] = f"{float(number[1]) * prime} {number[2]}"
        else:
            held = numbers[key]
            found[key] = held if isinstance(held, str) else held * prime
    return found


def test_every_row_is_asked_once() -> None:
    asked = [row for row, _ in CALLS]
    assert len(ROWS) == 263
    assert not set(asked) - set(ROWS)
    assert not set(ROWS) - set(asked)
    assert len(asked) == len(set(asked))


def test_every_row_is_answered_to_its_tolerance() -> None:
    wrong = {}
    for row, value in found()["said"].items():
        expected, rtol = float(ROWS[row]["answer"]), float(ROWS[row]["rtol"])
        if not abs(value - expected) <= rtol * abs(expected):
            wrong[row] = (value, expected, rtol)
    assert not wrong


CALLED = {
    "max": max, "min": min, "ceil": math.ceil, "floor": math.floor, "sqrt": math.sqrt,
    "log2": math.log2,
}  # fmt: skip


BRANCHED = {  # what the estimator knows and the row's formula leaves out
    "inf.pop_small",  # whether products or weights take longer
    "inf.pop_big",
    "tr.attn_cross",  # a width inside the MLP that does not move with the outer one
    "gpu.pop3_16",  # which level of the tree binds
}


SIZELESS = {"s4.dot_simple", "sh.q10_ratio2"}  # ratios that no size moves


def test_other_inputs_have_the_answers_of_the_formula() -> None:
    """Asked with other inputs, the estimator follows the row's own formula still."""
    wrong = {}
    for row, call in CALLS:
        inputs, formula = moved(ROWS[row]["inputs"]), compile(ROWS[row]["expr"], row, "eval")
        unread = ({*formula.co_names} & set(inputs)) - set(call.get("from", {}).values())
        assert not unread, f"{row} does not read {unread}"
        expected, value = eval(formula, CALLED | inputs), found()["inputs"][row]
        exact = 1e-9 if ROWS[row]["inputs"] else float(ROWS[row]["rtol"])
        if row not in BRANCHED and not abs(value - expected) <= exact * abs(expected):
            wrong[row] = (value, expected)
    assert not wrong


def test_no_row_is_answered_by_a_constant() -> None:
    for row, _ in CALLS:
        answers = {found()[kind][row] for kind in ("said", "inputs", "literals")}
        assert len(answers) > 1 or row in SIZELESS, row


@pytest.mark.parametrize("ask", sorted({call["ask"] for _, call in CALLS}))
def test_a_call_by_name_answers_alike(ask: str) -> None:
    """What the docs show, `jr.evaluate`, is what the rows were held against."""
    row, call = next((row, call) for row, call in CALLS if call["ask"] == ask)
    data = jr.evaluate(ask, settings(call, ROWS[row]["inputs"]))
    np.testing.assert_allclose(
        data[call["result"]] / call.get("per", 1.0), found()["said"][row], rtol=1e-12
    )
    assert data[call["result"]].attrs["units"]
