"""Models of today from the catalogue, with their recipes, and the golden rows about them."""

import csv
import dataclasses
import gzip
from collections.abc import Iterable
from typing import Any

import pytest
from places import GOLDEN

from jaxroof import catalog
from jaxroof.catalog.architecture import Architecture
from jaxroof.catalog.lookup import architecture_with_choices, only_parameters
from jaxroof.estimators.training.recipe import Recipe
from jaxroof.settings import choose

EACH_KIND = (  # models of the catalogue, one of every kind of layers; others have no other formulas
    *("gpt2-124m", "llama3-8b", "mixtral-8x7b", "deepseek-v3", "vit-l-16", "nemotron4-340b"),
    *("gemma2-27b", "gemma-3-1b", "mistral-7b-v0.1", "gpt-oss-20b", "llama-4-scout-text"),
    *("qwen3-next-80b-a3b", "nemotron-h-8b", "nemotron-3-super-120b-a12b", "deepseek-v3.2"),
    *("kimi-linear-48b-a3b", "glm-4.5", "minimax-m2", "mimo-v2-flash", "grok-1", "olmo-2-7b"),
)


def language_models() -> list[str]:
    """Return the names of models of language whose training has a formula."""
    some = {name: architecture_with_choices(name) for name in catalog.names("architectures")}
    return [n for n, one in some.items() if one[0].vocabulary > 0.0 and not only_parameters(*one)]


def one_of_each(names: Iterable[str]) -> list[Any]:
    """Return models as parameters of a test: one of every kind daily, the others with -m slow."""
    marks = {name: [pytest.mark.slow] * (name not in EACH_KIND) for name in names}
    return [pytest.param(name, marks=some) for name, some in marks.items()]


def rows(name: str) -> list[dict[str, str]]:
    """Return the rows of a golden file, such as models/models."""
    with gzip.open(GOLDEN / f"{name}.csv.gz", "rt", newline="") as file:
        return list(csv.DictReader(file))


BEFORE = {  # of the tables of 2025: fields that the catalogue has had otherwise since
    "deepseek-v3": {"router_correction": 0.0, "extra_parameters": 58.0 * 256.0},
    "gemma3-27b-text": {"vocabulary": 262144.0},  # the checkpoint has 262,208 entries
}


def architecture_of_2025(name: str, **changed: Any) -> tuple[Architecture, Recipe]:
    """Return a model as models.csv and its golden files have it, and its recipe."""
    return architecture(name, **BEFORE.get(name, {}), **changed)


def architecture(name: str, **changed: Any) -> tuple[Architecture, Recipe]:
    """Return a model by name or file, with fields changed, and its recipe."""
    model, choices = architecture_with_choices(name)
    return dataclasses.replace(model, **changed), choose(Recipe(), choices)
