"""The pareto command: the benefit of more memory, printed, written and drawn."""

import json
from typing import Any

from jaxroof.cli.actions.arguments import parse_share, parse_split
from jaxroof.cli.actions.console import say_all
from jaxroof.cli.actions.outputs import check_output, report_written, write_or_draw
from jaxroof.cli.actions.search_options import QuestionOptions
from jaxroof.cli.counts import parse_counts
from jaxroof.cli.progress import working
from jaxroof.engine.search.none_legal import check_legal
from jaxroof.engine.search.pareto import pareto
from jaxroof.errors import refusal, shown
from jaxroof.estimators.published.step import published
from jaxroof.units import parse
from jaxroof.views.text.pareto import answer


def pareto_command(*, days: str | None, gain: str, **options: Any) -> int:
    """Print the staircase of step time against memory for each size; return the exit status."""
    asked = QuestionOptions(**options)
    output = asked.output
    check_output(output)
    sizes = parse_counts("--gpus", asked.gpus)
    most_days, worth = None if days is None else _days(days), parse_share("--gain", gain)
    if asked.asked_of is published:
        parse_split(asked.split)
    axes = {"gpus": sizes}
    with working("finding the fastest plan at every amount of memory"):
        data = pareto(asked.asked_of, None, axes=axes, where=asked.rules, settings=asked.settings)
    data.attrs["title"] = f"{asked.question}: what more memory buys"
    if not data.sizes["step_number"]:
        check_legal(asked.asked_of, None, axes=axes, where=asked.rules, settings=asked.settings)
    data.attrs |= {"sizes": json.dumps(sizes), "gain": str(worth)}
    data.attrs |= {} if most_days is None else {"most_days": str(most_days)}
    write_or_draw(output, data, lambda plots: plots.staircase(data, most_days))
    say_all(answer(data))
    report_written(output)
    if most_days is not None:
        return 0 if bool((data.training_days <= most_days).any()) else 1
    return 0 if bool(data.fits.any()) else 1


def _days(text: str) -> float:
    value = parse(text, "day", "--days")
    if value <= 0:
        raise refusal("--days", f"expected days above 0, such as 30, given {shown(text.strip())}")
    return value
