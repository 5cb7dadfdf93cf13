"""Answers while a slider moves: computed beside the page, the latest question alone."""

import asyncio
import concurrent.futures
import logging
from collections.abc import Callable, Iterator
from typing import Any

from jaxroof.errors import InputError
from jaxroof.limits import out_of_memory

WORKERS = concurrent.futures.ThreadPoolExecutor(2, thread_name_prefix="answers")
PATIENCE = 0.3  # seconds from which on the page says that it works
OURS = "The page met an error of its own ({kind}); the terminal has the details."
log = logging.getLogger("jaxroof.app")


class Live:
    """The answers of one session.

    ``work`` yields the answers to a question, the quick one first; each is given to ``show`` as
    soon as it is there, ``failed`` gets the line of an error, ``busy`` whether work goes on.
    ``later`` runs a function where the page may be changed.
    """

    def __init__(
        self,
        work: Callable[[Any], Iterator[Any]],
        show: Callable[[Any], None],
        failed: Callable[[str], None],
        busy: Callable[[bool], None],
        later: Callable[[Callable[[], None]], None],
    ) -> None:
        """Keep what is done with a question."""
        self.work, self.show, self.failed = work, show, failed
        self.busy, self.later = busy, later
        self.wanted: Any = None
        self.task: asyncio.Task[None] | None = None

    def ask(self, question: Any) -> None:
        """Answer a question; what is still computed of an earlier one is not shown."""
        self.wanted = question
        if self.task is None or self.task.done():
            self.task = asyncio.get_running_loop().create_task(self._answer())

    async def _answer(self) -> None:
        """Answer until no newer question is there."""
        loop = asyncio.get_running_loop()
        timer = loop.call_later(PATIENCE, lambda: self.later(lambda: self.busy(True)))
        done = None
        while done is not self.wanted:
            done = self.wanted
            answers = self.work(done)
            while done is self.wanted:
                found, error = await loop.run_in_executor(WORKERS, _next, answers)
                if done is not self.wanted:
                    break
                if error:
                    self._tell(self.failed, error)
                if found is None:
                    break
                self._tell(self.show, found)
        timer.cancel()
        self.later(lambda: self.busy(False))

    def _tell(self, how: Callable[[Any], None], what: Any) -> None:
        asked = self.wanted

        def tell() -> None:
            if asked is self.wanted:
                how(what)

        self.later(tell)


def _next(answers: Iterator[Any]) -> tuple[Any, str]:
    """Return the next answer, None after the last, and the line of an error."""
    try:
        return next(answers, None), ""
    except InputError as error:
        return None, str(error)
    except Exception as error:
        found = out_of_memory(error, "expected a smaller question")
        if isinstance(found, InputError):
            return None, str(found)
        log.exception("an error of the page")
        return None, OURS.format(kind=type(error).__name__)
