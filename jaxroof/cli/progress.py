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


PATIENCE = 2.0  # seconds, after which what still runs says what it does
LINE = {"highlight": False, "soft_wrap": True, "markup": False}


@contextlib.contextmanager
def _shown(what: str, *columns: ProgressColumn) -> Iterator[Progress]:
    """Show how far the block is, erased when done, in a terminal; else say what takes long."""
    page = Console(stderr=True)
    late = threading.Timer(PATIENCE, page.print, (f"{what} ...",), LINE)
    late.daemon = True
    if not page.is_terminal:
        late.start()
    hidden = not page.is_terminal
    try:
        with Progress(*columns, console=page, transient=True, disable=hidden) as bar:
            yield bar
    finally:
        late.cancel()


@contextlib.contextmanager
def progress_bar() -> Iterator[Callable[[int, int], None]]:
    """Show a bar; give what moves it to (done, all)."""
    text = TextColumn("{task.description}")
    columns = text, BarColumn(), TaskProgressColumn(), Speed(), TimeRemainingColumn()
    with _shown("evaluating every point", *columns) as bar:
        task = bar.add_task("listing plans, compiling", total=None)

        def move(done: int, total: int) -> None:
            bar.update(task, completed=done, total=total, description="evaluating")

        yield move


@contextlib.contextmanager
def working(what: str) -> Iterator[None]:
    """Say what the block does, if it takes long: in a terminal with the seconds since it began."""
    columns = SpinnerColumn(), TextColumn("{task.description}"), TimeElapsedColumn()
    with _shown(what, *columns) as bar:
        bar.add_task(what, total=None)
        yield
