"""Safe writing: atomic replacement, partial files renamed when complete."""

import contextlib
import io
import os
import pathlib
import tempfile
from collections.abc import Callable, Iterable, Iterator

from jaxroof.errors import InputError, refusal

Path = str | os.PathLike[str]
# what readers raise for a damaged or foreign file (RecursionError is a RuntimeError)
DAMAGE = (LookupError, ValueError, TypeError, AttributeError, ArithmeticError, RuntimeError)


@contextlib.contextmanager
def os_errors(path: Path, doing: str = "written") -> Iterator[None]:
    """Turn an OSError of the block into a one-line error."""
    try:
        yield
    except OSError as error:
        reason = error.strerror or str(error)
        raise refusal(os.fspath(path), f"cannot be {doing}: {reason}") from error


@contextlib.contextmanager
def replace_file(path: Path, of: Path | None = None, *, sync: bool = True) -> Iterator[str]:
    """Yield the name of a temporary file that replaces ``path`` when the block ends normally.

    The file is in the same directory. A killed process leaves it there; its name ends in
    ``.partial``. Errors name the path ``of``, by default ``path``. Without ``sync`` a machine that
    loses its power may lose the content.
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
            if sync:
                with open(name, "rb+") as stream:
                    os.fsync(stream.fileno())
            os.replace(name, target)
        except BaseException:
            with contextlib.suppress(OSError):
                os.unlink(name)
            raise


def write_lines(path: Path, lines: Iterable[str]) -> None:
    """Write lines to a file that is there whole, or not at all."""
    with replace_file(path) as name, open(name, "w", encoding="utf-8") as out:
        out.writelines(f"{line}\n" for line in lines)


def partial_of(path: Path) -> pathlib.Path:
    """Return the name of the file that collects rows until all are written.

    >>> partial_of("answers.csv").name
    'answers.partial.csv'
    """
    target = pathlib.Path(path)
    return target.with_name(f"{target.stem}.partial{target.suffix}")


class _Partial:
    """A growing file in the same directory that replaces the target when complete."""

    def __init__(self, path: Path) -> None:
        self.target, self.path = pathlib.Path(path), partial_of(path)
        self.stream: io.FileIO | None = None
        self.size = self.rows = 0

    def add(self, text: str, rows: int) -> None:
        """Append a text of ``rows`` rows."""
        if self.stream is None:  # only now: the old file may be the only copy
            self.path.unlink(missing_ok=True)
            self.stream = io.FileIO(self.path, "xb")
        data, done = memoryview(text.encode("utf-8", "surrogatepass")), 0
        while done < len(data):
            done += self.stream.write(data[done:])
        self.size, self.rows = self.size + done, self.rows + rows

    def in_place(self) -> bool:
        """Return whether the path still names the open file."""
        assert self.stream is not None
        try:
            return os.path.samestat(os.fstat(self.stream.fileno()), os.stat(self.path))
        except FileNotFoundError:
            return False

    def finish(self) -> None:
        """Rename the file to the target."""
        assert self.stream is not None
        if not self.in_place():
            raise InputError(f"{self.target}: another run writes it too; expected another name")
        os.replace(self.path, self.target)
        self.stream.close()

    def stop(self) -> str:
        """Cut off an incomplete text; return a sentence part that says where the rows are."""
        if self.stream is None:
            return ""
        ours = self.in_place()
        with contextlib.suppress(OSError):
            self.stream.truncate(self.size)
            if ours and not self.rows:
                self.path.unlink()
        self.stream.close()
        many = f"{self.rows:,} rows" if self.rows > 1 else "one row"
        where = f"answers to the {many} before that are in {self.path}"
        return where if ours and self.rows else ""


@contextlib.contextmanager
def partial_file(path: Path) -> Iterator[Callable[[str, int], None]]:
    """Yield a function (text, rows) that appends to a partial file, renamed to ``path`` at the end.

    The partial file is in the same directory (see ``partial_of``). If the block fails, it stays,
    cut to whole texts.
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
