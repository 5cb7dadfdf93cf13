"""A text file that run after run adds whole lines to: what one wrote outlives whatever ends it."""

import contextlib
import io
import os
import sys
from collections.abc import Iterator

from jaxroof.engine.ledger import Path, told
from jaxroof.errors import refusal

LONGEST = 1 << 20  # bytes of a line


class Lasting:
    """A file that is held: its whole lines, and the bytes of one that was cut short."""

    def __init__(self, path: Path) -> None:
        self.path = os.fspath(path)
        self.stream = _claimed(self.path)
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
        with told(self.path, "read"):
            return self.reader.readline(LONGEST)

    def cut(self) -> None:
        """Let go of what is behind the lines that stay.

        Raises: InputError where the file cannot be written.
        """
        with told(self.path):
            self.stream.truncate(self.size)

    def add(self, text: str) -> None:
        """Write whole lines, all or none, and wait until the disk has them.

        Raises: InputError where another file took the place of this one; OSError.
        """
        if not _in_place(self.stream, self.path):
            what = "another file took its place while it was written; expected another name"
            raise refusal(self.path, what)
        data = memoryview(text.encode("utf-8", "surrogatepass"))
        done = 0
        try:
            self.stream.truncate(self.size)
            while done < len(data):
                done += self.stream.write(data[done:])
            os.fsync(self.stream.fileno())
        except BaseException:
            with contextlib.suppress(OSError):
                self.stream.truncate(self.size)
            raise
        self.size += done

    def close(self) -> None:
        """Let other runs have the file, or none where it is empty."""
        if os.fstat(self.stream.fileno()).st_size == 0 and _in_place(self.stream, self.path):
            with contextlib.suppress(OSError):
                os.unlink(self.path)
        self.reader.close()  # and the stream


def _claimed(path: str) -> io.FileIO:
    """Return a file, made where there is none, that no other run has."""
    while True:
        stream = io.FileIO(path, "a+")
        try:
            _lock(stream)
        except (BlockingIOError, PermissionError):
            stream.close()
            raise refusal(path, "another run is writing it") from None
        except OSError:
            stream.close()
            raise
        if _in_place(stream, path):
            return stream
        stream.close()  # whoever had it took it away: there is another, or none


def _lock(stream: io.FileIO) -> None:
    if sys.platform == "win32":
        import msvcrt

        stream.seek(1 << 62)  # bytes that are locked cannot be read: none that are there
        msvcrt.locking(stream.fileno(), msvcrt.LK_NBLCK, 1)
    else:
        import fcntl

        fcntl.flock(stream, fcntl.LOCK_EX | fcntl.LOCK_NB)


def _in_place(stream: io.FileIO, path: str) -> bool:
    try:
        return os.path.samestat(os.fstat(stream.fileno()), os.stat(path))
    except FileNotFoundError:
        return False


@contextlib.contextmanager
def lasting(path: Path) -> Iterator[Lasting]:
    """Hold a file during the block; a lock of the system on the file itself dies with us.

    Raises: InputError where another run holds it, or where it cannot be written.
    """
    with told(path):
        file = Lasting(path)
    try:
        yield file
    finally:
        file.close()
