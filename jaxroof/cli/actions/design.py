"""The design command: solve a design file, print, write and draw the result."""

from jaxroof.cli.actions import outputs
from jaxroof.cli.actions.console import say_all
from jaxroof.cli.actions.dry_run import print_dry_run
from jaxroof.cli.progress import working
from jaxroof.config.design_file import design_would_take, run_design
from jaxroof.views.text.design import answer


def design_command(*, file: str, output: str | None, dry_run: bool) -> int:
    """Print, write and draw the best machine for a budget; return the exit status."""
    outputs.check_output(output)
    if dry_run:
        return print_dry_run(lambda: design_would_take(file))
    with working("searching machines and plans within the budget"):
        data = run_design(file)
    outputs.write_or_draw(output, data, lambda plots: plots.draw(data))
    say_all(answer(data))
    outputs.report_written(output)
    return 0
