"""What a Dataset answers: one table from its question to the module of its words and its picture.

A question NAME has its words in ``views/text/NAME.py``: ``answer(data, page)``, its sentences and
tables in order. Its picture is of what the Dataset says it shows (``views.plots.draw``).
"""

import importlib
from collections.abc import Iterable, Iterator
from typing import Any

import xarray as xr

from jaxroof.views.text.said import REPORT, Page, Said

MODULES = {  # the attribute ``question`` of a Dataset, and the module of its answer
    "legal plans": "legal_plans",
    "fastest plans": "fastest_plans",
    "least memory": "least_memory",
    "every plan": "every_plan",
    "fit": "fit",
    "fit_stages": "stages",
    "explanation": "explain",
    "response": "response",
    "elasticities": "elasticities",
    "roofline": "roofline",
    "collective": "collective",
    "design": "design",
    "budget": "budget",
    "serve": "serve",
    "frontier": "frontier",
    "compare": "compare",
    "pareto": "pareto",
    "against": "pareto",
    "uncertain": "uncertain",
    "layers": "layers",
    "stages": "stages",
    "schedule": "schedule",
    "trace": "trace",
    "search": "sweep",
    "table": "sweep",
}
ALONG = {  # dimensions that tell the answer of a file that does not say what was asked
    ("event",): "trace",
    ("operation",): "layers",
    ("stage",): "stages",
    ("quantile", "draw"): "uncertain",
    ("field",): "design",
    ("step_number",): "pareto",
    ("schedule", "device"): "schedule",
    ("parameter", "factor"): "response",
}
GLOSSARY = "In the table: "  # begins the meaning of a table's words
SILENT = ("", "response")  # answers without words


def module_of(data: xr.Dataset) -> str:
    """Return the name of the module of an answer; empty for a Dataset of another program.

    >>> module_of(xr.Dataset(attrs={"question": "fit"})), module_of(xr.Dataset({"x": 1.0}))
    ('fit', '')
    """
    if data.attrs.get("answer") == "plans":
        return "every_plan"
    asked = str(data.attrs.get("question", ""))
    return MODULES.get(asked) or _guess(data)


def _guess(data: xr.Dataset) -> str:
    """Return the module of an answer that an older file holds, by its dimensions and results."""
    dims = {str(dim) for dim in data.sizes}
    for told, name in ALONG.items():
        if {*told} <= dims:
            return name
    if "elasticity" in data:
        return "elasticities"
    return "compare" if "memory_limit" in data and "system" in dims else ""


def answer(data: xr.Dataset, page: Page = REPORT) -> Iterator[Said]:
    """Yield the sentences and tables of an answer; none of a Dataset of another program."""
    name = module_of(data)
    if name not in SILENT:
        home = importlib.import_module(f"jaxroof.views.text.{name}")
        yield from home.answer(data, page)


def headline(data: xr.Dataset) -> str:
    """Return the first sentence of an answer; empty where there is none.

    >>> import jaxroof as jr
    >>> data = jr.evaluate("matmul", batch=8, hidden=64, feedforward=64, system="tpu-v5e")
    >>> headline(data).partition(":")[0]
    'Memory bound'
    """
    return first_sentence(answer(data))


def first_sentence(said: Iterable[Said]) -> str:
    """Return the first sentence that is no title or glossary; empty where there is none."""
    pieces = (one.piece for one in said if not one.is_title and isinstance(one.piece, str))
    first = next((text for text in pieces if text and not text.startswith(GLOSSARY)), "")
    whole, point, _ = first.partition(". ")
    return whole + point.strip()


def picture(data: xr.Dataset) -> Any:
    """Return the Figure of an answer: the one that its sweep names, or that of its question.

    Raises: InputError for a Dataset that no picture shows.
    """
    plots = importlib.import_module("jaxroof.views.plots")
    return plots.draw(data)
