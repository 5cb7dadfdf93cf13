"""What `jaxroof run` prints of a grid: a table of it, and what there is to say in sentences."""

import xarray as xr
from rich.console import Console

from jaxroof.shell.commands import say
from jaxroof.views import roofline, roofs, tables, words


def print_grid(page: Console, data: xr.Dataset) -> None:
    """Print one point with all of its results, or a grid by its telling one; then sentences."""
    if data.sizes or "feasible" in data:
        grid = tables.grid_table(data)
        if grid is not None:
            page.print(grid)
    else:
        for sentence in roofline.shape_sentences(data) if roofs.is_roofline(data) else ():
            say(page, sentence)
        page.print(roofline.result_table(data))
    for sentence in words.sweep_sentences(data):
        say(page, sentence)
