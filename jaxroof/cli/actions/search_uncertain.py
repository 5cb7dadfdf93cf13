"""The `search --uncertain` command: quantiles, the plan to commit to, what to measure first."""

import pathlib
from functools import partial
from typing import Any

from jaxroof.cli.actions.console import say_all
from jaxroof.cli.actions.dry_run import print_dry_run
from jaxroof.cli.actions.outputs import check_output, report_written, write_or_draw
from jaxroof.cli.actions.search_options import SearchOptions
from jaxroof.cli.progress import working
from jaxroof.config.toml_reader import errors_in_file, read_uncertain
from jaxroof.engine.runs.dry_run import dry_run_of_draws
from jaxroof.engine.search.problem import check_search
from jaxroof.engine.search.search import search
from jaxroof.engine.uncertainty.uncertain import uncertain
from jaxroof.errors import InputError
from jaxroof.io.formats import CSV
from jaxroof.views.text import uncertain as views
from jaxroof.views.text.interval import spread_words
from jaxroof.views.text.uncertain import answer


def uncertain_command(file: str, asked: SearchOptions, dry_run: bool = False) -> int:
    """Search one or several cluster sizes in every draw, print and write; return the status.

    Every placement counts as a separate plan, so ``--placements`` has no effect.
    """
    output, top = asked.output, asked.top
    check_output(output)
    for option, chosen in (("--mine", asked.mine), ("--all", asked.everything)):
        if chosen:
            raise InputError(f"{option}: not with --uncertain; expected one of the two")
    written = read_uncertain(file)
    sizes = list(dict.fromkeys(asked.sizes))
    settings = asked.settings
    first = {**settings, "gpus": sizes[0]}
    given: dict[str, Any] = {"where": asked.rules, "objective": asked.objective}
    check_search(asked.asked_of, None, top=top, settings=first, **given)  # no error of the file
    if len(sizes) > 1:
        given |= {"axes": {"gpus": sizes}, "settings": settings}
    else:
        given |= {"settings": first}
    if dry_run:
        with errors_in_file(file):
            would = partial(dry_run_of_draws, asked.asked_of, None, **written, **given)
            return print_dry_run(would)
    with errors_in_file(file), working("searching all plans in every draw"):
        data = uncertain(asked.asked_of, None, top=max(top, 10), **written, **given)
    aim = str(data.attrs["objective"]).replace("_", " ")
    data.attrs["title"] = (
        f"{asked.question}: {aim} in {data.sizes['draw']:,} draws of what is uncertain"
    )
    today = search(asked.asked_of, None, where=asked.rules, settings=first)
    data.attrs |= {"spread": spread_words(today), "top": str(top)}
    plain = output is not None and pathlib.Path(output).suffix == CSV
    write_or_draw(output, views.columns(data) if plain else data, lambda plots: plots.draw(data))
    say_all(answer(data))
    report_written(output)
    return 0 if bool((data.feasible_share > 0).any()) else 1
