"""Files that are whole or not there: replaced at once, kept aside until done, or added to."""

import contextlib
import io
import os
import pathlib
import tempfile
from collections.abc import Callable, Iterator

from jaxroof.errors import InputError, refusal
from jaxroof.io.locks import Path, in_place, open_locked

LONGEST = 1 << 20  # bytes of a line


@contextlib.contextmanager
def os_errors(path: Path, doing: str = "written") -> Iterator[None]:
    """Say in one line what the system refused in the block.

    Raises: InputError that names the path.
    """
    try:
        yield
    except OSError as error:
        reason = error.strerror or str(error)
        raise refusal(os.fspath(path), f"cannot be {doing}: {reason}") from error


@contextlib.contextmanager
def replace_file(path: Path, of: Path | None = None) -> Iterator[str]:
    """Give a temporary name beside ``path`` that takes its place once the block is done.

    A kill leaves that name, which ends in ``.partial``; ``of`` is what an error names, if not
    ``path``.
    Raises: InputError where the file cannot be written; nothing half-written is left.
    """
    target = pathlib.Path(path)
    with os_errors(of or path):
        handle, name = tempfile.mkstemp(".partial", f".{target.name}.", target.parent)
        try:
            os.close(handle)
            yield name
            mask = os.umask(0)
            os.umask(mask)
            os.chmod(name, 0o666 & ~mask)
            with open(name, "rb+") as stream:
                os.fsync(stream.fileno())
            os.replace(name, target)
        except BaseException:
            with contextlib.suppress(OSError):
                os.unlink(name)
            raise


def _add(stream: io.FileIO, size: int, text: str, *, sync: bool = False) -> int:
    """Write a text behind the first ``size`` bytes, all or nothing; return the new size."""
    data = memoryview(text.encode("utf-8", "surrogatepass"))
    done = 0
    try:
        stream.truncate(size)
        while done < len(data):
            done += stream.write(data[done:])
        if sync:
            os.fsync(stream.fileno())
    except BaseException:
        with contextlib.suppress(OSError):
            stream.truncate(size)
        raise
    return size + done


def partial_of(path: Path) -> pathlib.Path:
    """Return where rows are kept until all are there.

    >>> partial_of("answers.csv").name
    'answers.partial.csv'
    """
    target = pathlib.Path(path)
    return target.with_name(f"{target.stem}.partial{target.suffix}")


class _Partial:
    """A file that grows by whole texts beside the one that it becomes."""

    def __init__(self, path: Path) -> None:
        self.target, self.path = pathlib.Path(path), partial_of(path)
        self.stream: io.FileIO | None = None
        self.size = self.rows = 0

    def add(self, text: str, rows: int) -> None:
        """Write a text that holds some rows."""
        if self.stream is None:  # not before: an older one may be all there is
            self.path.unlink(missing_ok=True)
            self.stream = io.FileIO(self.path, "xb")
        size = _add(self.stream, self.size, text)
        self.size, self.rows = size, self.rows + rows

    def finish(self) -> None:
        """Let the file take its place."""
        assert self.stream is not None
        if not in_place(self.stream, self.path):
            raise InputError(f"{self.target}: another run writes it too; expected another name")
        self.stream.close()
        os.replace(self.path, self.target)

    def stop(self) -> str:
        """Cut off what is not whole; return what is left, in words."""
        if self.stream is None:
            return ""
        ours = self.stream.closed or in_place(self.stream, self.path)
        with contextlib.suppress(OSError, ValueError):
            self.stream.truncate(self.size)
        self.stream.close()
        if ours and self.rows:
            many = f"{self.rows:,} rows" if self.rows > 1 else "one row"
            return f"answers to the {many} before that are in {self.path}"
        if ours:
            with contextlib.suppress(OSError):
                self.path.unlink()
        return ""


@contextlib.contextmanager
def partial_file(path: Path) -> Iterator[Callable[[str, int], None]]:
    """Give a function that writes texts and counts their rows; ``path`` appears at the end, whole.

    Until then they are in a file beside it (see ``partial_of``), which stays, cut to whole texts,
    where the block ends before it is done.
    Raises: InputError where the file cannot be written, saying where the rows are.
    """
    file = _Partial(path)
    try:
        with os_errors(path):
            yield file.add
            file.finish()
    except InputError as error:
        left = file.stop()
        raise InputError(f"{str(error).rstrip('.')}; {left}" if left else str(error)) from error
    except KeyboardInterrupt as error:
        raise KeyboardInterrupt(file.stop() or str(error)) from None
    except BaseException:
        file.stop()
        raise


class LockedAppend:
    """A text file that no other run has: its whole lines, and bytes of one that was cut short.

    Runs add whole lines; what one wrote outlives whatever ends it.
    """

    def __init__(self, path: Path) -> None:
        self.path = os.fspath(path)
        self.stream = open_locked(path)
        self.stream.seek(0)  # adding moves to the end by itself
        self.reader = io.BufferedReader(self.stream)
        self.size = 0  # bytes of the lines that stay
        self.rest = b""  # behind them

    def lines(self) -> Iterator[str]:
        """Yield the whole lines from the start, with their ends.

        Raises: InputError where it is not text, or cannot be read.
        """
        number = 0
        while data := self._line():
            number += 1
            if len(data) == LONGEST:
                raise refusal(f"{self.path}: line {number}", "too long; expected a CSV file")
            if not data.endswith(b"\n"):
                self.rest = data
                return
            try:
                line = data.decode("utf-8-sig" if number == 1 else "utf-8")
            except UnicodeDecodeError:
                what = "not UTF-8 text; expected a CSV file"
                raise refusal(f"{self.path}: line {number}", what) from None
            self.size += len(data)
            yield line

    def _line(self) -> bytes:
        with os_errors(self.path, "read"):
            return self.reader.readline(LONGEST)

    def cut(self) -> None:
        """Let go of what is behind the lines that stay.

        Raises: InputError where the file cannot be written.
        """
        with os_errors(self.path):
            self.stream.truncate(self.size)

    def add(self, text: str) -> None:
        """Write whole lines, all or none, and wait until the disk has them.

        Raises: InputError where another file took the place of this one; OSError.
        """
        if not in_place(self.stream, self.path):
            what = "another file took its place while it was written; expected another name"
            raise refusal(self.path, what)
        self.size = _add(self.stream, self.size, text, sync=True)


@contextlib.contextmanager
def locked_append(path: Path) -> Iterator[LockedAppend]:
    """Hold a file that lines are added to during the block; one that stays empty is removed.

    Raises: InputError where another run holds it, or where it cannot be written.
    """
    with os_errors(path):
        file = LockedAppend(path)
    try:
        yield file
    finally:
        if os.fstat(file.stream.fileno()).st_size == 0 and in_place(file.stream, path):
            with contextlib.suppress(OSError):
                os.unlink(path)
        file.reader.close()  # and the stream
