"""The explain command: what limits the best plan, printed, written and drawn."""

from typing import Any

import xarray as xr

from jaxroof.analyses.explain import Explanation, explain, explanation_dataset
from jaxroof.cli.actions.console import say_all
from jaxroof.cli.actions.outputs import (
    PICTURES,
    check_output,
    is_picture,
    report_written,
    write_data,
)
from jaxroof.cli.actions.search_options import QuestionOptions
from jaxroof.cli.counts import parse_count
from jaxroof.cli.detail import detail
from jaxroof.cli.progress import working
from jaxroof.engine.search.none_legal import check_legal
from jaxroof.engine.sensitivity.response import response
from jaxroof.errors import refusal, shown
from jaxroof.units import parse, seconds
from jaxroof.views.text.detail import Detail
from jaxroof.views.text.explain import answer, with_capacity
from jaxroof.views.text.said import Page

CHANGE = 1.1  # factor applied to a parameter in both directions, in the tornado plot


def explain_command(*, span: str, **options: Any) -> int:
    """Print, write or draw what limits the best plan; return the exit status."""
    asked = QuestionOptions(**options)
    output = asked.output
    check_output(output, (".json", ".nc", *PICTURES))
    count = parse_count("--gpus", asked.gpus)
    reach = parse(span, "1", "--span")
    if not 1.0 < reach <= 1e6:
        raise refusal("--span", f"expected a factor above 1 and at most 1e6, given {shown(span)}")
    estimator, rules = asked.asked_of, asked.rules
    chosen = {"gpus": count, **asked.settings}
    with working("searching plans at every value of every parameter"):
        found = explain(estimator=estimator, where=rules, span=reach, settings=chosen)
    if not found.steps.sizes["step"]:
        check_legal(estimator, None, where=rules, settings=chosen)
    title = f"{asked.question}, batch {asked.sequences:,}"
    data = explanation_dataset(found, title)
    if is_picture(output) and not found.feasible:
        output = None  # nothing to draw
    if output is not None and is_picture(output):
        moved = response(estimator, None, where=rules, span=CHANGE, settings=chosen)
        _draw(output, moved, found, title)
    write_data(None if is_picture(output) else output, data)
    say_all(answer(data, Page(every=detail() is Detail.VERBOSE)))
    report_written(output)
    return 0 if found.feasible else 1


def _draw(output: str, moved: xr.Dataset, found: Explanation, title: str) -> None:
    """Draw the effect of a small increase and decrease of each parameter."""
    from jaxroof.views import plots

    data = with_capacity(moved, found.steps)
    step = seconds(float(found.best.step_time))
    data.attrs["title"] = (
        f"{title}: a step of {step} with each parameter x {CHANGE} and / {CHANGE}, "
    )
    data.attrs["title"] += "the best plan chosen anew"
    plots.save(plots.draw(data), output)
