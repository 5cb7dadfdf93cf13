"""A file that grows beside the one that it becomes: what it holds is never lost."""

import contextlib
import io
import os
import pathlib
from collections.abc import Callable, Iterator

from jaxroof.errors import InputError, refusal

Path = str | os.PathLike[str]


def partial_of(path: Path) -> pathlib.Path:
    """Return where rows are kept until all are there.

    >>> partial_of("answers.csv").name
    'answers.partial.csv'
    """
    target = pathlib.Path(path)
    return target.with_name(f"{target.stem}.partial{target.suffix}")


class _Growing:
    """A file that grows by whole texts: what is in it is always complete."""

    def __init__(self, path: Path) -> None:
        self.target, self.partial = pathlib.Path(path), partial_of(path)
        self.stream: io.FileIO | None = None
        self.rows = self.size = 0

    def add(self, text: str, rows: int) -> None:
        """Write a text that holds some rows."""
        if self.stream is None:  # not before: an older one may be all there is
            with contextlib.suppress(FileNotFoundError):
                self.partial.unlink()
            self.stream = io.FileIO(self.partial, "xb")
        data = memoryview(text.encode("utf-8", "surrogatepass"))
        size = self.size + len(data)
        while data:
            data = data[self.stream.write(data) :]
        self.size, self.rows = size, self.rows + rows

    def finish(self) -> None:
        """Let the file take its place."""
        assert self.stream is not None
        if not self._ours():
            raise InputError(f"{self.target}: another run writes it too; expected another name")
        self.stream.close()
        os.replace(self.partial, self.target)

    def _ours(self) -> bool:
        """Return whether no other run has put its own file where ours was."""
        assert self.stream is not None
        try:
            return os.path.samestat(os.fstat(self.stream.fileno()), os.stat(self.partial))
        except FileNotFoundError:
            return False

    def stop(self) -> str:
        """Cut off what is not whole; return what is left, in words."""
        if self.stream is None:
            return ""
        ours = self.stream.closed or self._ours()
        with contextlib.suppress(OSError, ValueError):
            self.stream.truncate(self.size)
        self.stream.close()
        if not ours:
            return ""
        if self.rows:
            many = f"{self.rows:,} rows" if self.rows > 1 else "one row"
            return f"answers to the {many} before that are in {self.partial}"
        with contextlib.suppress(OSError):
            self.partial.unlink()
        return ""


@contextlib.contextmanager
def growing(path: Path) -> Iterator[Callable[[str, int], None]]:
    """Give a function that writes texts and counts their rows; ``path`` appears at the end, whole.

    Until then they are in a file beside it (see ``partial_of``), which stays, cut to whole texts,
    where the block ends before it is done.
    Raises: InputError where the file cannot be written, saying where the rows are.
    """
    file = _Growing(path)
    try:
        yield file.add
        file.finish()
    except OSError as error:
        left, reason = file.stop(), error.strerror or str(error)
        said = f"cannot be written: {reason}" + (f"; {left}" if left else "")
        raise refusal(os.fspath(path), said) from error
    except InputError as error:
        left = file.stop()
        raise InputError(f"{str(error).rstrip('.')}; {left}" if left else str(error)) from error
    except KeyboardInterrupt as error:
        raise KeyboardInterrupt(file.stop() or str(error)) from None
    except BaseException:
        file.stop()
        raise
