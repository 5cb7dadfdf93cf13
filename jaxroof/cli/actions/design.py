"""The design command: solve a design file, print, write and draw the result."""

from jaxroof.cli.actions import outputs
from jaxroof.cli.actions.console import console, print_text
from jaxroof.cli.progress import working
from jaxroof.config.design_file import run_design
from jaxroof.views.text.design import design_json, design_sentences, design_table
from jaxroof.views.text.interval import interval_sentence
from jaxroof.views.text.tokens import tokens_sentence


def design_command(*, file: str, output: str | None, as_json: bool) -> int:
    """Print, write and draw the best machine for a budget; return the exit status."""
    outputs.check_output(output)
    with working("searching machines and plans within the budget"):
        data = run_design(file)
    outputs.write_or_draw(output, data, lambda plots: plots.draw(data))
    if as_json:
        print(design_json(data))
    else:
        page = console()
        print_text(page, data.attrs["title"], style="bold")
        page.print(design_table(data))
        print_text(page, *design_sentences(data), interval_sentence(data))
        print_text(page, tokens_sentence(data) if data.estimator == "training" else "")
    outputs.report_written(output)
    return 0
