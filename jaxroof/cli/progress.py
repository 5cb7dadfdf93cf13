"""What takes long says so: a bar or a spinner in a terminal, one line elsewhere."""

import contextlib
import threading
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
    with (
        _said_late(page, "evaluating every point"),
        Progress(*columns, console=page, transient=True, disable=not page.is_terminal) as bar,
    ):
        task = bar.add_task("listing plans, compiling", total=None)

        def move(done: int, total: int) -> None:
            bar.update(task, completed=done, total=total, description="evaluating")

        yield move


PATIENCE = 2.0  # seconds, after which what still runs says what it does


@contextlib.contextmanager
def _said_late(page: Console, what: str) -> Iterator[None]:
    """Say in a line what the block does, if it takes long and nothing in a terminal shows it."""
    late = threading.Timer(PATIENCE, page.print, (f"{what} ...",), LINE)
    late.daemon = True
    if not page.is_terminal:
        late.start()
    try:
        yield
    finally:
        late.cancel()


LINE = {"highlight": False, "soft_wrap": True, "markup": False}


@contextlib.contextmanager
def working(what: str) -> Iterator[None]:
    """Say what the block does, if it takes long: in a terminal with the seconds since it began."""
    page = Console(stderr=True)
    columns = SpinnerColumn(), TextColumn("{task.description}"), TimeElapsedColumn()
    with (
        _said_late(page, what),
        Progress(*columns, console=page, transient=True, disable=not page.is_terminal) as bar,
    ):
        bar.add_task(what, total=None)
        yield
