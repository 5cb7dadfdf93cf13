"""The run command: run a sweep file, write it, and print a table and sentences."""

import sys
import time
from functools import partial

import xarray as xr

from jaxroof.analyses import roofline_reading as roofs
from jaxroof.cli.actions.cluster import cluster_of
from jaxroof.cli.actions.console import console, say
from jaxroof.cli.actions.dry_run import print_dry_run
from jaxroof.cli.detail import detail
from jaxroof.cli.progress import progress_bar
from jaxroof.config.run_sweep import run as run_file
from jaxroof.config.run_sweep import would_take
from jaxroof.io.formats import json_text
from jaxroof.views.text import (
    all_plans as splits,
)
from jaxroof.views.text import (
    elasticities,
    fit_stages,
    roofline,
    stages,
    tables,
)
from jaxroof.views.text import (
    search as words,
)
from jaxroof.views.text.detail import Detail
from jaxroof.views.text.interval import interval_sentence
from jaxroof.views.text.layers import tables_of_layer
from jaxroof.views.text.plan import glossary


def run_command(
    file: str,
    output: str | None,
    chunk: int | None,
    overwrite: bool,
    trust: bool,
    dry_run: bool,
    workers: int | None,
    scheduler: str | None,
) -> int:
    """Run a sweep file, print and write its results; return the exit status."""
    if dry_run:
        asked = partial(would_take, file, output=output, chunk=chunk, trust=trust)
        return print_dry_run(asked, output)
    start = time.perf_counter()
    with progress_bar() as progress:
        data = run_file(
            file,
            progress,
            output=output,
            chunk=chunk,
            overwrite=overwrite,
            trust=trust,
            cluster=cluster_of(workers, scheduler),
        )
    took = time.perf_counter() - start
    if detail() is Detail.JSON:
        print(json_text(data))
    say(Detail.USUAL, data.attrs["title"], style="bold")
    if "operation" in data.sizes:
        say(Detail.QUIET, *tables_of_layer(data, console().width))
    elif data.attrs.get("question") == "fit_stages":
        say(Detail.USUAL, fit_stages.stages_sentence(data))
        say(Detail.QUIET, fit_stages.fullest_table(data))
    elif "stage" in data.sizes:
        say(Detail.USUAL, stages.stage_sentence(data))
        say(Detail.QUIET, stages.stage_table(data))
    elif data.attrs.get("answer") == "plans":
        say(Detail.USUAL, *splits.plan_sentences(data))
        say(Detail.QUIET, splits.plan_table(data))
    elif "parameter" in data.sizes:
        say(Detail.USUAL, elasticities.binding_sentence(data))
        say(Detail.QUIET, elasticities.binding_table(data))
        say(Detail.USUAL, *words.sweep_sentences(data.drop_dims("parameter")))
    else:
        _print_grid(data)
    print(f"{took:.2f} s" + (f", wrote {output}" if output else ""), file=sys.stderr)
    return 0 if "feasible" not in data or bool(data.feasible.any()) else 1


def _print_grid(data: xr.Dataset) -> None:
    """Print the headline result of a grid, or all results of a single point, and sentences."""
    if data.sizes or ("step_time" in data and "feasible" in data):
        count, *found = words.sweep_sentences(data)
        say(Detail.USUAL, *found)
        grid = tables.grid_table(data)
        if grid is not None:
            say(Detail.QUIET, grid)
        say(Detail.USUAL, glossary(data) if "plans_feasible" in data else "")
        say(Detail.VERBOSE, interval_sentence(data))
        say(Detail.USUAL, count)
        return
    say(Detail.USUAL, *(roofline.shape_sentences(data) if roofs.is_roofline(data) else ()))
    say(Detail.QUIET, roofline.result_table(data))
    say(Detail.USUAL, *words.sweep_sentences(data))
