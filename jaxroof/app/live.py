"""Answers while a slider moves: computed beside the page, the latest question alone."""

import asyncio
import concurrent.futures
import logging
from collections.abc import Callable, Iterator
from typing import Any

from jaxroof.errors import InputError
from jaxroof.limits import out_of_memory

QUICK = concurrent.futures.ThreadPoolExecutor(2, thread_name_prefix="quick")
SLOW = concurrent.futures.ThreadPoolExecutor(2, thread_name_prefix="slow")
END = object()  # stands behind the last answer
PATIENCE = 0.3  # seconds from which on the page says that it works
OURS = "The page met an error of its own ({kind}); the terminal has the details."
log = logging.getLogger("jaxroof.app")


class Lane:
    """One kind of answers of a session: computed one at a time, and given if still wanted.

    ``work`` yields answers, and is left between them when nobody wants the next. ``given`` gets a
    question, each answer and the line of an error; the last answer is ``END``.
    """

    def __init__(
        self,
        pool: concurrent.futures.Executor,
        work: Callable[[Any], Iterator[Any]],
        given: Callable[[Any, Any, str], None],
    ) -> None:
        self.pool, self.work, self.given = pool, work, given
        self.wanted: Any = None
        self.task: asyncio.Task[None] | None = None

    @property
    def works(self) -> bool:
        """Return whether an answer is still to come."""
        return self.task is not None and not self.task.done()

    def ask(self, question: Any) -> None:
        """Answer a question; None asks nothing, and lets an answer that is to come go."""
        self.wanted = question
        if question is not None and not self.works:
            self.task = asyncio.get_running_loop().create_task(self._answer())

    async def _answer(self) -> None:
        loop, done = asyncio.get_running_loop(), None
        while self.wanted is not None and done is not self.wanted:
            done = self.wanted
            answers, found, error = self.work(done), None, ""
            while done is self.wanted and found is not END and not error:
                found, error = await loop.run_in_executor(self.pool, attempted, answers)
                if done is self.wanted:
                    self.given(done, found, error)


class Live:
    """The answers of one session: a quick one to every question, and a late one to the last.

    ``quick`` and ``late`` compute them, each as soon as the one before of its kind is done: a late
    one never keeps a quick one waiting. ``late`` gets the quick answer and yields one or several.
    ``show`` gets either, ``failed`` the line of an error and whether it is of a late one, ``busy``
    whether work goes on. ``later`` runs a function where the page may be changed.
    """

    def __init__(
        self,
        quick: Callable[[Any], Any],
        late: Callable[[Any], Iterator[Any]],
        show: Callable[[Any], None],
        failed: Callable[[str, bool], None],
        busy: Callable[[bool], None],
        later: Callable[[Callable[[], None]], None],
    ) -> None:
        self.show, self.failed, self.busy, self.later = show, failed, busy, later
        self.question: Any = None
        self.timer: asyncio.TimerHandle | None = None

        def once(question: Any) -> Iterator[Any]:
            yield quick(question)

        self.first = Lane(QUICK, once, self._quick_given)
        self.second = Lane(SLOW, late, self._late_given)

    def ask(self, question: Any) -> None:
        """Answer a question; what is still computed of an earlier one is not shown."""
        self.question = question
        self.second.ask(None)
        self.first.ask(question)
        if self.timer is None:
            loop = asyncio.get_running_loop()
            self.timer = loop.call_later(PATIENCE, lambda: self.later(lambda: self.busy(True)))

    def _quick_given(self, question: Any, found: Any, error: str) -> None:
        if found is END:
            return
        self._given(question, found, error, late=False)
        if not error:
            self.second.ask(found)

    def _late_given(self, _: Any, found: Any, error: str) -> None:
        self._given(self.question, found, error, late=True)

    def _given(self, question: Any, found: Any, error: str, late: bool) -> None:
        """Show what is found, or what is wrong; when all is found, say that no work goes on."""

        def tell() -> None:
            if question is self.question and found is not END:
                self.failed(error, late) if error else self.show(found)

        self.later(tell)
        if found is END or error:
            if self.timer is not None:
                self.timer.cancel()
                self.timer = None
            self.later(lambda: self.busy(False))


def attempted(answers: Iterator[Any]) -> tuple[Any, str]:
    """Return the next answer or ``END``, or None and the line of an error."""
    try:
        return next(answers, END), ""
    except Exception as error:
        return None, line_of(error)


def line_of(error: Exception) -> str:
    """Return what the page says of an error; one of ours is logged, with its trace."""
    found = out_of_memory(error, "expected a smaller question")
    if isinstance(found, InputError):
        return str(found)
    log.error("an error of the page", exc_info=error)
    return OURS.format(kind=type(error).__name__)
