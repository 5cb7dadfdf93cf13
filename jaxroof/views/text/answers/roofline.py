"""What is said of the roofline of an operator."""

from collections.abc import Iterator

import xarray as xr

from jaxroof.analyses import roofline_reading as roofs
from jaxroof.estimators.book.common import DTYPES
from jaxroof.views.text import roofline as views
from jaxroof.views.text.said import REPORT, Page, Said, title, usual

HOW_TO_KEEP = "Draw it with -o roofline.png (.svg, .pdf); -o FILE.nc, .csv or .json keeps it."


def answer(data: xr.Dataset, page: Page = REPORT) -> Iterator[Said]:
    """Yield what limits an operator at a shape, or along a sweep."""
    sweep = roofs.sweep_dimension(data) is not None
    yield from title(f"{data.attrs['title']}{_on(data)}")
    if not roofs.is_roofline(data):
        yield from usual(str(data.attrs["about"]))
        yield from usual(views.plain_sweep_table(data) if sweep else views.result_table(data))
        return
    yield from usual(*(views.sweep_sentences(data) if sweep else views.shape_sentences(data)))
    yield from usual(views.sweep_table(data, page.most) if sweep else views.result_table(data))
    if sweep and not page.kept:
        yield from usual(HOW_TO_KEEP)


def _on(data: xr.Dataset) -> str:
    """Return the machine or the number format of one case, or how many cases there are."""
    names = [name for name, _ in roofs.cases(data) if name]
    if len(names) == 1:
        return f" {'in' if names[0].partition(',')[0] in DTYPES else 'on'} {names[0]}"
    return f", {len(names)} cases" if names else ""
