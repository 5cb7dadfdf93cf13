"""The explain command: what limits the best plan, printed, written and drawn."""

import pathlib

import xarray as xr

from jaxroof.analyses.explain import Explanation, explain
from jaxroof.catalog.lookup import model, system
from jaxroof.cli.actions.arguments import PLAN_FIELDS, SHORT, parse_count, parse_settings
from jaxroof.cli.actions.console import OPTION_OF, console, print_text
from jaxroof.cli.actions.outputs import PICTURES, is_picture, report_written
from jaxroof.engine.search.all_plans import survey
from jaxroof.engine.search.constraints import constraints
from jaxroof.engine.sensitivity.response import response
from jaxroof.errors import InputError, refusal
from jaxroof.estimators.published.inputs import Inputs
from jaxroof.estimators.published.legality import RULES
from jaxroof.estimators.published.recipe import Split
from jaxroof.estimators.published.step import published
from jaxroof.io.atomic import replace_file
from jaxroof.io.formats import check_writable
from jaxroof.units import parse, seconds
from jaxroof.views.text import explain as views
from jaxroof.views.text.explain_json import explain_json
from jaxroof.views.text.explain_sentences import best_sentence, explain_sentences
from jaxroof.views.text.search import counts_sentence

CHANGE = 1.1  # factor applied to a parameter in both directions, in the tornado plot


def explain_command(
    *,
    model_name: str,
    system_name: str,
    gpus: str,
    batch: str,
    split: str,
    number_format: str | None,
    sets: tuple[str, ...],
    where: str,
    span: str,
    as_json: bool,
    output: str | None,
) -> int:
    """Print, write or draw what limits the best plan; return the exit status."""
    _check(output)
    count, sequences = parse_count("--gpus", gpus), parse_count("--batch", batch)
    reach = parse(span, "1", "--span")
    if not 1.0 < reach <= 1e6:
        raise refusal("--span", f"expected a factor above 1 and at most 1e6, given {span!r}")
    inputs = Inputs(model=model(model_name), system=system(system_name, number_format))
    chosen = {"model": model_name, "gpus": count, "global_batch": sequences, "split": split}
    chosen |= parse_settings(sets, OPTION_OF)
    rules = constraints(where, PLAN_FIELDS, SHORT)
    found = explain(inputs, where=rules, span=reach, settings=chosen)
    title = f"{model_name} on {count:,} x {system_name}, batch {sequences:,}, {split}"
    if is_picture(output) and not found.feasible:
        output = None  # nothing to draw
    if output is not None and is_picture(output):
        moved = response(published, inputs, where=rules, span=CHANGE, settings=chosen)
        _draw(output, moved, found, title)
    elif output is not None:
        with replace_file(output) as temporary:
            pathlib.Path(temporary).write_text(explain_json(found), encoding="utf-8")
    if as_json:
        print(explain_json(found))
    elif found.steps.sizes["step"]:
        _print(found, title)
    else:
        refusals = {rule.name: rule.words for rule in RULES[Split(split)]}
        none = survey(published, inputs, where=rules, settings=chosen)
        limit, asked = float(found.best.memory_limit), [str(rule) for rule in rules]
        print_text(console(), title, style="bold")
        print_text(console(), counts_sentence(none, limit, refusals, asked))
    report_written(output)
    return 0 if found.feasible else 1


def _check(output: str | None) -> None:
    """Check, before any work, that a picture or a JSON file can be written.

    Raises: InputError that says why it cannot.
    """
    if output is None:
        return
    if is_picture(output):
        from jaxroof.views import plots

        plots.drawable(output)
    elif pathlib.Path(output).suffix != ".json":
        known = ", ".join((".json", *PICTURES))
        what = f"cannot tell the kind of file; expected a name that ends in {known}"
        raise InputError(f"{output}: {what}")
    else:
        check_writable(output)


def _draw(output: str, moved: xr.Dataset, found: Explanation, title: str) -> None:
    """Draw the effect of a small increase and decrease of each parameter."""
    from jaxroof.views import plots

    data = views.with_capacity(moved, found.steps)
    step = seconds(float(found.best.step_time))
    data.attrs["title"] = (
        f"{title}: a step of {step} with each parameter x {CHANGE} and / {CHANGE}, "
    )
    data.attrs["title"] += "the best plan chosen anew"
    plots.save(plots.draw(data), output)


def _print(found: Explanation, title: str) -> None:
    page = console()
    print_text(page, title, style="bold")
    if found.feasible:
        print_text(page, best_sentence(found))
    for sentence in explain_sentences(found):
        print_text(page, sentence)
    if found.feasible:
        page.print(views.bars_table(found.elasticities))
        for sentence in views.rest_sentences(found.elasticities):
            print_text(page, sentence)
        page.print(views.binding_table(found.operations))
        if found.response.sizes["switch"]:
            page.print(views.switches_table(found.response, found.elasticities))
    if found.steps.sizes["step"]:
        page.print(views.steps_table(found.steps))
