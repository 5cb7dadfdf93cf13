"""The design command: a design file asked, printed, written and drawn."""

from jaxroof.cli.actions import outputs
from jaxroof.cli.actions.console import console, say
from jaxroof.config.design_file import run_design
from jaxroof.views.text.design import design_json, design_sentences, design_table


def design_command(*, file: str, output: str | None, as_json: bool) -> int:
    """Print, write and draw the machine that a budget should buy; return the exit status."""
    outputs.check(output)
    data = run_design(file)
    outputs.deliver(output, data, lambda plots: plots.draw(data))
    if as_json:
        print(design_json(data))
    else:
        page = console()
        say(page, data.attrs["title"], style="bold")
        page.print(design_table(data))
        for sentence in design_sentences(data):
            say(page, sentence)
    outputs.tell(output)
    return 0
