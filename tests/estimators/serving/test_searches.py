"""Searches of servers through the public door: golden winners and counts, pools, refusals."""

import functools
from typing import Any

import numpy as np
import pytest
import xarray as xr
from daily import daily
from serving_rows import RECORDS, rows

import jaxroof as jr
from jaxroof.catalog.architecture import Architecture
from jaxroof.catalog.serving_software import ServingSoftware
from jaxroof.catalog.system import System
from jaxroof.records import units

Row = dict[str, str]
FIELDS = {
    "serving": ("tensor", "data", "pipeline", "whole", "batch", "chunk"),
    "serving_prefill": ("tensor", "data", "pipeline", "whole", "chunk"),
    "serving_decode": ("tensor", "data", "pipeline", "whole", "batch"),
}


def _record(kind: type[Any], row: Row) -> Any:
    return kind(**{name: float(row[name]) for name in units(kind) if row.get(name)})


def settings(row: Row) -> dict[str, Any]:
    """Return the settings of a golden row, with records instead of names."""
    model = dict(RECORDS["model"][row["model"]])
    model["feedforward"] = str(max(float(model["feedforward"]), 64.0))  # of no layer
    choices = {
        "mlp": "gated" if float(model["gated"]) else "plain",
        "embeddings": "tied" if float(model["tied"]) else "separate",
    }
    found = {name: float(row[name]) for name in ("prompt", "output", "gpus")}
    return found | {
        "model": (_record(Architecture, model), choices),
        "system": _record(System, RECORDS["system"][row["system"]]),
        "software": _record(ServingSoftware, RECORDS["software"][row["software"]]),
        "precision": f"{row['attention_format']}:{row['mlp_format']}",
        "precision.cache_width": float(row["cache_width"]),
    }


def limits(row: Row) -> dict[str, float]:
    return {name: float(row[f"{name}_limit"]) for name in ("ttft", "tpot")}


def check(found: xr.Dataset, name: str, row: Row, before: str, results: dict[str, str]) -> None:
    """Compare the winner of a search with the cells of a row that begin with ``before``."""
    assert bool(found.feasible) == bool(row[f"{before}tensor"])
    if not bool(found.feasible):
        return
    winner = {field: int(found[field]) for field in FIELDS[name]}
    assert winner == {field: int(float(row[before + field])) for field in FIELDS[name]}
    if name == "serving_prefill":
        assert int(found.busy) == round(10.0 * float(row["prefill_share"]))
    for result, cell in results.items():
        np.testing.assert_allclose(float(found[result]), float(row[cell]), rtol=1e-12)


@pytest.mark.parametrize("part", daily(range(4), 0, 2))
def test_golden_searches(part: int):
    every = rows("searches")
    kept: dict[Any, Any] = {}
    for row in every[part::4]:
        stages = row["part"] == "first"
        where, end = ("", "_one_stage") if stages else ("pp<=8", "")
        ask = functools.partial(jr.search, where=where, **settings(row))
        found = ask("serving", **limits(row))
        assert int(found.plans_legal) == int(row[f"legal{end}"])
        assert int(found.plans_feasible) == int(row[f"within{end}"])
        same = tuple(row[n] for n in ("model", "system", "software", "gpus", "prompt", "part"))
        if same not in kept:
            kept[same] = int(ask("serving").plans_feasible)
        assert kept[same] == int(row[f"fit_and_keep_up{end}"])
        values = {n: f"out_{n}" for n in ("accelerator_time", "tpot", "ttft", "users")}
        check(found, "serving", row, "", values)
        values = {"accelerator_time": "out_prefill_time", "ttft": "out_prefill_ttft"}
        prefill = ask("serving_prefill", ttft=limits(row)["ttft"], output=None)
        assert int(prefill.plans_legal) == int(row[f"prefill_legal{end}"])
        values_decode = {"accelerator_time": "out_decode_time", "tpot": "out_decode_tpot"}
        decode = ask("serving_decode", tpot=limits(row)["tpot"])
        assert int(decode.plans_legal) == int(row[f"decode_legal{end}"])
        if row["prefill_tensor"]:
            check(prefill, "serving_prefill", row, "prefill_", values)
            check(decode, "serving_decode", row, "decode_", values_decode)
        else:  # a pair is empty where either pool is
            assert not (bool(prefill.feasible) and bool(decode.feasible))


def test_golden_frontier():
    for row in rows("frontier"):
        found = jr.search("serving", **settings(row), **limits(row))
        assert int(found.plans_feasible) == int(row["within"])
        names = ("accelerator_time", "tpot", "ttft", "interactivity", "output_rate")
        check(found, "serving", row, "", {name: f"out_{name}" for name in names})
        axes = {f"limits.{name}": [value, 2.0 * value] for name, value in limits(row).items()}
        cell = jr.search("serving", axes=axes, **settings(row)).isel(limits_ttft=0, limits_tpot=0)
        for name in FIELDS["serving"]:
            assert int(cell[name]) == int(found[name])


def test_more_memory_and_looser_limits_are_never_worse():
    axes = {
        "system.hbm_capacity": [4e10, 8e10, 1.6e11],
        "limits.tpot": [0.01, 0.02, 0.05],
        "limits.ttft": [0.2, 0.5, 2.0],
    }
    given = {"model": "llama3-70b", "system": "h100-nvs8", "gpus": 16, "prompt": 2048}
    found = jr.search("serving", axes=axes, **given, output=512)
    least = np.where(found.feasible, found.accelerator_time, np.inf)
    assert np.isfinite(least).any()
    for axis in range(3):
        assert (least.take([1, 2], axis) <= least.take([0, 1], axis)).all()
