"""Models of today from the catalogue, with their recipes, and the golden rows about them."""

import csv
import dataclasses
import gzip
from typing import Any

from places import GOLDEN

from jaxroof.catalog.architecture import Architecture
from jaxroof.catalog.lookup import architecture_with_choices
from jaxroof.estimators.training.recipe import Recipe
from jaxroof.settings import choose

EACH_KIND = (  # models of the catalogue, one of every kind of layers; others have no other formulas
    *("gpt2-124m", "llama3-8b", "mixtral-8x7b", "deepseek-v3", "vit-l-16", "nemotron4-340b"),
    *("gemma2-27b", "gemma-3-1b", "mistral-7b-v0.1", "gpt-oss-20b", "llama-4-scout-text"),
    *("qwen3-next-80b-a3b", "nemotron-h-8b", "nemotron-3-super-120b-a12b", "deepseek-v3.2"),
    *("kimi-linear-48b-a3b", "glm-4.5", "minimax-m2", "mimo-v2-flash", "grok-1", "olmo-2-7b"),
)


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
