"""The run command: run a sweep file, write it, and print a table and sentences."""

import sys
import time
from functools import partial
from typing import Any

from rich.console import Console

from jaxroof.analyses import roofline_reading as roofs
from jaxroof.cli.actions.cluster import cluster_of
from jaxroof.cli.actions.console import console, print_text
from jaxroof.cli.actions.dry_run import print_dry_run
from jaxroof.cli.progress import progress_bar
from jaxroof.config.run_sweep import run as run_file
from jaxroof.config.run_sweep import would_take
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
from jaxroof.views.text.layers import tables_of_layer


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
    page = console()
    print_text(page, data.attrs["title"], style="bold")
    if "operation" in data.sizes:
        for each in tables_of_layer(data, page.width):
            page.print(each)
    elif data.attrs.get("question") == "fit_stages":
        page.print(fit_stages.fullest_table(data))
        print_text(page, fit_stages.stages_sentence(data))
    elif "stage" in data.sizes:
        page.print(stages.stage_table(data))
        print_text(page, stages.stage_sentence(data))
    elif data.attrs.get("answer") == "plans":
        page.print(splits.plan_table(data))
        print_text(page, *splits.plan_sentences(data))
    elif "parameter" in data.sizes:
        page.print(elasticities.binding_table(data))
        print_text(page, elasticities.binding_sentence(data))
        print_text(page, *words.sweep_sentences(data.drop_dims("parameter")))
    else:
        _print_grid(page, data)
    print(f"{took:.2f} s" + (f", wrote {output}" if output else ""), file=sys.stderr)
    return 0 if "feasible" not in data or bool(data.feasible.any()) else 1


def _print_grid(page: Console, data: Any) -> None:
    """Print the headline result of a grid, or all results of a single point; then sentences."""
    if data.sizes or ("step_time" in data and "feasible" in data):
        grid = tables.grid_table(data)
        if grid is not None:
            page.print(grid)
    else:
        print_text(page, *(roofline.shape_sentences(data) if roofs.is_roofline(data) else ()))
        page.print(roofline.result_table(data))
    print_text(page, *words.sweep_sentences(data))
