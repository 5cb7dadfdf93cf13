"""The design command: a design file asked, printed, written and drawn."""

from jaxroof.designs import run_design
from jaxroof.shell import outputs
from jaxroof.shell.commands import console, say
from jaxroof.views.design import design_json, design_sentences, design_table


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
