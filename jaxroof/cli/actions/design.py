"""The design command: solve a design file, print, write and draw the result."""

from jaxroof.cli.actions import outputs
from jaxroof.cli.actions.console import say
from jaxroof.cli.actions.dry_run import print_dry_run
from jaxroof.cli.progress import working
from jaxroof.config.design_file import design_would_take, run_design
from jaxroof.views.text.design import (
    design_json,
    design_sentences,
    design_table,
    proof_sentences,
    warning_sentences,
)
from jaxroof.views.text.detail import Detail
from jaxroof.views.text.interval import interval_sentence
from jaxroof.views.text.tokens import tokens_sentence


def design_command(*, file: str, output: str | None, as_json: bool, dry_run: bool) -> int:
    """Print, write and draw the best machine for a budget; return the exit status."""
    outputs.check_output(output)
    if dry_run:
        return print_dry_run(lambda: design_would_take(file))
    with working("searching machines and plans within the budget"):
        data = run_design(file)
    outputs.write_or_draw(output, data, lambda plots: plots.draw(data))
    if as_json:
        print(design_json(data))
    else:
        first, *rest = design_sentences(data)
        say(Detail.USUAL, data.attrs["title"], style="bold")
        say(Detail.QUIET, first)
        say(Detail.USUAL, *rest, design_table(data), interval_sentence(data))
        say(Detail.VERBOSE, *proof_sentences(data))
        say(Detail.USUAL, *warning_sentences(data))
        say(Detail.USUAL, tokens_sentence(data) if data.estimator == "training" else "")
    outputs.report_written(output)
    return 0
