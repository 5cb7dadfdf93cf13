"""What is said of systems and splits side by side."""

import json
from collections.abc import Iterator

import xarray as xr

from jaxroof.views.text import compare as views
from jaxroof.views.text.interval import interval_sentence
from jaxroof.views.text.plan import glossary
from jaxroof.views.text.said import REPORT, Page, Said, quiet, title, usual, verbose
from jaxroof.views.text.tokens import tokens_sentence


def answer(data: xr.Dataset, _: Page = REPORT) -> Iterator[Said]:
    """Yield the best plan of each system and split, for each model and number of accelerators."""
    numbers = json.loads(data.attrs["inputs"])
    batch = f"batch {int(numbers['global_batch']):,}"
    sizes = data["gpus"].values.tolist() if "gpus" in data.sizes else [numbers.get("gpus")]
    each = "gpus" in data.coords and data["gpus"].dims == ("system",)
    for name, tokens in models_of(data).items():
        for size in sizes:
            some = data.sel(model=name) if "model" in data.sizes else data
            some = some.sel(gpus=size) if "gpus" in data.sizes else some
            on = "" if each else f" on {int(size):,} accelerators"
            yield from title(f"{name}{on}, {batch}")
            yield from _compared(some)
        of_days = data.attrs["estimator"] == "training"
        yield from usual(tokens_sentence(data, tokens) if of_days else "")
    yield from usual(glossary(data, None, *views.meanings(data)), views.sooner_sentence(data))
    yield from verbose(interval_sentence(data))
    yield from usual(*views.without_sentences(json.loads(data.attrs.get("without", "{}"))))


def _compared(data: xr.Dataset) -> Iterator[Said]:
    yield from usual(*views.compare_sentences(data))
    yield from quiet(views.rate_table(data))
    if bool(data["feasible"].any()):
        yield from usual(views.parts_table(data), *views.plan_sentences(data))


def models_of(data: xr.Dataset) -> dict[str, float | None]:
    """Return the models that a file compares and the tokens that each is trained on, if known."""
    if "models" in data.attrs:
        return dict(json.loads(data.attrs["models"]))
    if "model" in data.sizes:
        return dict.fromkeys(data["model"].values.tolist())
    return {str(data.attrs["title"]).partition(" on ")[0]: None}
