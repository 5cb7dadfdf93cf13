"""What is said of the operations of one layer, of whichever estimator."""

from collections.abc import Iterator

import xarray as xr

from jaxroof.analyses.one_plan import question_of
from jaxroof.estimators.published.unfused import unfused
from jaxroof.views.text import training_layers
from jaxroof.views.text import unfused as blocks
from jaxroof.views.text.layers import layer_table, repeated_sentence, totals_sentence
from jaxroof.views.text.plan import plan_line
from jaxroof.views.text.said import REPORT, Page, Said, quiet, title, usual


def answer(data: xr.Dataset, page: Page = REPORT) -> Iterator[Said]:
    """Yield the operations of a layer; tables of blocks are cut to pieces of a width."""
    if "block" in data.coords:
        yield from _blocks(data, page.width)
    elif "kind" in data.coords:
        yield from title(str(data.attrs.get("title", "")))
        yield from usual(training_layers.training_layer_sentence(data))
        yield from quiet(training_layers.training_layer_table(data))
        yield from usual(training_layers.notes_sentence(data), plan_line(data))
    else:
        yield from quiet(layer_table(data))
        yield from usual(totals_sentence(data), repeated_sentence(data))


def _blocks(data: xr.Dataset, width: int) -> Iterator[Said]:
    inputs, recipe = question_of(data)
    report = unfused.evaluate(inputs, recipe)
    yield from quiet(*blocks.block_tables(data, width))
    yield from usual(blocks.sums_table(report, int(inputs.model.layers)))
    yield from usual(blocks.shares_sentence(report), blocks.dropped_sentence(inputs, recipe))
