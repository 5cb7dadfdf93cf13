"""The console for results, and the option that sets each field."""

from rich.console import Console

from jaxroof.views.text.layout import wrapped


def console() -> Console:
    """Return the console for results; when piped, it is as wide as the tables need."""
    wide = Console()
    return wide if wide.is_terminal else Console(width=max(wide.width, 160))


def print_text(page: Console, *texts: str, style: str | None = None) -> None:
    """Print sentences, each wrapped at a terminal's width, or on one line when piped."""
    for text in filter(None, texts):
        lines = wrapped(page, text, page.width) if page.is_terminal else [text.rstrip()]
        page.print("\n".join(lines), style=style, soft_wrap=True, markup=False, highlight=False)


OPTION_OF = {  # fields that have an option
    "model": "--model",
    "system": "--system",
    "gpus": "--gpus",
    "global_batch": "--batch",
    "split": "--split",
}
