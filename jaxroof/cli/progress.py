"""A bar of what is done: points a second and the time that is left, in a terminal alone."""

from rich.console import Console
from rich.progress import (
    BarColumn,
    Progress,
    ProgressColumn,
    Task,
    TaskProgressColumn,
    TextColumn,
    TimeRemainingColumn,
)
from rich.text import Text


class Speed(ProgressColumn):
    """Points a second, of late."""

    def render(self, task: Task) -> Text:
        """Return what stands in the column."""
        return Text(f"{task.speed:,.0f} points/s" if task.speed else "")


def progress_bar(page: Console) -> Progress:
    """Return a bar that leaves nothing behind, and shows nothing where there is no terminal."""
    columns = (
        TextColumn("{task.description}"),
        BarColumn(),
        TaskProgressColumn(),
        Speed(),
        TimeRemainingColumn(),
    )
    return Progress(*columns, console=page, transient=True, disable=not page.is_terminal)
