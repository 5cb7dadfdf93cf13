"""What is said of the events of a step."""

from collections.abc import Iterator

import xarray as xr

from jaxroof.io.traces import labelled_parts
from jaxroof.views.text.said import REPORT, Page, Said, title, usual
from jaxroof.views.trace_blocks import block_words, workers


def answer(data: xr.Dataset, _: Page = REPORT) -> Iterator[Said]:
    """Yield the events, the step time, and where the devices' time goes, of each trace."""
    for name, one in labelled_parts(data).items():
        events = f"{one.sizes['event']:,} events on {len(workers(one)):,} devices"
        yield from title(name or str(one.attrs.get("title", "")))
        yield from usual(f"{events}; {block_words(one)}.")
