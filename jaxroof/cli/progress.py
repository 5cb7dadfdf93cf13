"""A progress bar: points per second and the time left; shown in a terminal only."""

import contextlib
from collections.abc import Callable, Iterator

from rich.console import Console
from rich.progress import (
    BarColumn,
    Progress,
    ProgressColumn,
    SpinnerColumn,
    Task,
    TaskProgressColumn,
    TextColumn,
    TimeElapsedColumn,
    TimeRemainingColumn,
)
from rich.text import Text


class Speed(ProgressColumn):
    """The recent number of points per second."""

    def render(self, task: Task) -> Text:
        """Return the text of the column."""
        return Text(f"{task.speed:,.0f} points/s" if task.speed else "")


@contextlib.contextmanager
def progress_bar() -> Iterator[Callable[[int, int], None]]:
    """Show a bar that is erased when done, in a terminal; give what moves it to (done, all)."""
    page = Console(stderr=True)
    columns = (
        TextColumn("{task.description}"),
        BarColumn(),
        TaskProgressColumn(),
        Speed(),
        TimeRemainingColumn(),
    )
    with Progress(*columns, console=page, transient=True, disable=not page.is_terminal) as bar:
        task = bar.add_task("listing plans, compiling", total=None)

        def move(done: int, total: int) -> None:
            bar.update(task, completed=done, total=total, description="evaluating")

        yield move


MANY = 5000  # rows of a file that take longer than a second


@contextlib.contextmanager
def working(what: str, always: bool = False) -> Iterator[None]:
    """Say in a terminal what the block does, and since when; elsewhere in a line, if asked."""
    page = Console(stderr=True)
    if always and not page.is_terminal:
        page.print(f"{what} ...", highlight=False, soft_wrap=True)
    columns = SpinnerColumn(), TextColumn("{task.description}"), TimeElapsedColumn()
    with Progress(*columns, console=page, transient=True, disable=not page.is_terminal) as bar:
        bar.add_task(what, total=None)
        yield
