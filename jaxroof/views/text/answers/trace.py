"""What is said of the events of a step."""

from collections.abc import Iterable, Iterator

import xarray as xr

from jaxroof.views.text.said import Said, title, usual
from jaxroof.views.trace_blocks import block_words, workers


def answer(traces: Iterable[xr.Dataset]) -> Iterator[Said]:
    """Yield the events, the step time, and where the devices' time goes, of each trace."""
    for one in traces:
        events = f"{one.sizes['event']:,} events on {len(workers(one)):,} devices"
        yield from title(str(one.attrs.get("title", "")))
        yield from usual(f"{events}; {block_words(one)}.")
