"""Where results are printed, and which option gives which field."""

from rich.console import Console

from jaxroof.views.text.layout import wrapped


def console() -> Console:
    """Return where results are printed; a pipe is as wide as the tables need."""
    wide = Console()
    return wide if wide.is_terminal else Console(width=max(wide.width, 160))


def print_text(page: Console, text: str, style: str | None = None) -> None:
    """Print a sentence: wrapped between words at a terminal's width, on one line to a pipe."""
    lines = wrapped(page, text, page.width) if page.is_terminal else [text.rstrip()]
    page.print("\n".join(lines), style=style, soft_wrap=True, markup=False, highlight=False)


OPTION_OF = {  # fields that options give
    "model": "--model",
    "system": "--system",
    "gpus": "--gpus",
    "global_batch": "--batch",
    "split": "--split",
}
