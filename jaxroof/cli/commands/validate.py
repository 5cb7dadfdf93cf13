"""The command `jaxroof validate`: predictions beside the measured rows of the package."""

from typing import Any

import click

from jaxroof.cli.options import Command, shared

FITTED = (
    "The constants were fitted to these rows; what rows that were kept from the fit said is in "
    "docs/accuracy.md."
)
WHAT = ("steps", "memory", "serving")


@click.command(
    name="validate",
    cls=Command,
    epilog="""\b
Examples:
  jaxroof validate
  jaxroof validate --source mlperf_training
  jaxroof validate -o accuracy.png
  jaxroof validate memory -o errors.csv
  jaxroof validate serving

steps (the default): errors by source, chip and regime, how many measured times the 80 % interval
holds, and the rows that are furthest off with the parts of their step. serving: errors by software
and quantity, and what intervals hold by regime; --source may be a .csv of your own rows.
""",
)
@click.argument("what", metavar="[steps|memory|serving]", default="steps", type=click.Choice(WHAT))
@click.option("--memory", is_flag=True, help="The same as memory.")
@click.option("--source", metavar="NAME", help="One source of measured rows alone.")
@shared("json")
@click.option(
    "-o", "--output", metavar="FILE", help="A .csv (of rows), .md (the page) or .png (step times)."
)
def command(what: str, memory: bool, source: str | None, output: str | None) -> None:
    """Print the error of predictions against what others measured."""
    import pathlib

    from jaxroof.cli import deliver
    from jaxroof.cli.progress import working
    from jaxroof.errors import refusal
    from jaxroof.io.atomic import replace_file
    from jaxroof.views.text import scores as views
    from jaxroof.views.text.said import Detail

    what = "memory" if memory else what
    of = {"steps": views.STEPS, "memory": views.MEMORY, "serving": views.SERVERS}[what]
    kinds = (".csv", ".md", *deliver.PICTURES) if of is views.STEPS else (".csv", ".md")
    kind = pathlib.Path(output).suffix if output else ""
    if output and kind not in kinds:
        raise refusal(
            output, f"expected a name that ends in {', '.join(kinds[:-1])} or {kinds[-1]}"
        )
    if kind == ".md" and source is not None:
        raise refusal("--source", "the page is about all sources; leave it out")
    if kind == ".md" and not pathlib.Path(output or "").is_file():
        raise refusal(output or "", "no such page; expected one with `<!-- made: scores -->`")
    deliver.check_output(output if deliver.is_picture(output) else None)
    with working(f"predicting the {of.words} of measured rows"):
        found = of.of.packaged_answers(source)
    if output and deliver.is_picture(output):
        from jaxroof.views import plots
        from jaxroof.views.plots.step_accuracy import predicted_measured

        plots.save(predicted_measured(found), output)
    elif output:
        page = pathlib.Path(output).read_text(encoding="utf-8") if kind == ".md" else ""
        lines = [views.page(of, found, page)] if page else views.csv_lines(views.rows_of(of, found))
        with replace_file(output) as name, open(name, "w", encoding="utf-8", newline="") as file:
            file.writelines(lines)
    if deliver.detail() is Detail.JSON:
        click.echo(views.scores_json(of, found))
    else:
        _print(of, found)
    deliver.report_written(output)


def _print(of: Any, found: Any) -> None:
    """Print the scores of rows, what they do not say, and the worst of them."""
    from jaxroof.cli import deliver
    from jaxroof.validation.rows import reasons
    from jaxroof.validation.sources import sources
    from jaxroof.views.text import scores as views

    screen, measured = deliver.console(), of.of.scores(found)
    regimes = of.of.regime_scores(found) if measured and of is not views.MEMORY else []
    if of is views.SERVERS and measured:
        deliver.print_text(screen, views.servers_sentence(regimes[-1]))
    for some in [measured + regimes] if of is views.STEPS else [measured, regimes]:
        if some:
            screen.print(views.scores_table(of, some))
    if of is views.MEMORY:
        deliver.print_text(screen, *views.first_run_sentences(found), *views.fill_sentences(found))
    elif of is views.STEPS:
        deliver.print_text(screen, views.LEGEND, *views.filled_sentences(found))
    elif measured:
        known = {*found["source"]} <= {*sources("serving")}
        deliver.print_text(screen, views.LEGEND, *[FITTED] * known)
    deliver.print_text(screen, *views.reason_lines(reasons(found)))
    if measured:
        deliver.print_text(screen, *views.worst_lines(of, of.of.worst(found)))
