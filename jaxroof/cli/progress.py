"""A progress bar: points per second and the time left; shown in a terminal only."""

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
    """The recent number of points per second."""

    def render(self, task: Task) -> Text:
        """Return the text of the column."""
        return Text(f"{task.speed:,.0f} points/s" if task.speed else "")


def progress_bar(page: Console) -> Progress:
    """Return a bar that is erased when done, and that is not shown outside a terminal."""
    columns = (
        TextColumn("{task.description}"),
        BarColumn(),
        TaskProgressColumn(),
        Speed(),
        TimeRemainingColumn(),
    )
    return Progress(*columns, console=page, transient=True, disable=not page.is_terminal)
