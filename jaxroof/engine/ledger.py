"""The ledger of a Zarr store: who writes it, what was asked, which chunks are finished.

It is the folder ``.jaxroof`` inside the store: ``lock``; ``plan.json``, what was asked and how the
grid is cut, there once the store is laid out; ``finished.jsonl``, a line for each finished chunk
with the size and the CRC-32 of its files. A chunk without a line that fits its files is not there.
"""

import contextlib
import dataclasses
import json
import math
import os
import pathlib
import shutil
import zlib
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

import numpy as np

from jaxroof.engine.atomic import os_errors, replacing
from jaxroof.engine.locks import Path, acquired
from jaxroof.errors import refusal

Files = dict[str, list[int]]  # [size, CRC-32] of each file, by its name inside the store
HOME = ".jaxroof"
PLAN, RECORD = "plan.json", "finished.jsonl"
FORMAT = 1
END = "end"  # the last line: the attributes are those of the whole
# what readers raise for a file that is not theirs (RecursionError is a RuntimeError)
DAMAGE = (LookupError, ValueError, TypeError, AttributeError, ArithmeticError, RuntimeError)
ANEW = "use --overwrite to start anew"


@dataclasses.dataclass(frozen=True)
class Layout:
    """How a grid is cut into chunks, numbered with the last dimension fastest."""

    sizes: Mapping[str, int]
    chunk: Mapping[str, int]

    def __len__(self) -> int:
        return math.prod(self._counts())

    def _counts(self) -> list[int]:
        return [-(-size // self.chunk[dim]) for dim, size in self.sizes.items()]

    def place(self, number: int) -> dict[str, int]:
        """Return a chunk's place among the chunks of each dimension."""
        index = np.unravel_index(number, self._counts() or (1,))
        return dict(zip(self.sizes, map(int, index), strict=False))

    def part(self, number: int) -> dict[str, slice]:
        """Return the part of each dimension that a chunk covers."""
        return {
            dim: slice(i * self.chunk[dim], min((i + 1) * self.chunk[dim], self.sizes[dim]))
            for dim, i in self.place(number).items()
        }

    def points(self, number: int) -> int:
        """Return how many points a chunk has."""
        return math.prod(some.stop - some.start for some in self.part(number).values())


@contextlib.contextmanager
def held(path: Path) -> Iterator[None]:
    """Keep other writers out of a store during the block.

    Raises: InputError where another run holds it, or where it cannot be written.
    """
    ours(path)
    home = pathlib.Path(path, HOME)
    with os_errors(path):
        home.mkdir(parents=True, exist_ok=True)
        lock = acquired(home / "lock", path)
    try:
        yield
    finally:
        lock.release()


def ours(path: Path) -> None:
    """Check that a store may be written: nothing is there, or what jaxroof wrote.

    Raises: InputError where something else is there.
    """
    folder = pathlib.Path(path)
    if folder.exists() and not folder.is_dir():
        raise refusal(os.fspath(path), "a file, not a Zarr store; expected another name")
    if folder.is_dir() and any(folder.iterdir()) and not (folder / HOME).is_dir():
        raise refusal(
            os.fspath(path), "a directory that jaxroof did not write; expected another name"
        )


def clear(path: Path) -> None:
    """Empty a store that is held."""
    home = pathlib.Path(path, HOME)
    with os_errors(path):
        (home / PLAN).unlink(missing_ok=True)  # first: without it nothing else counts
        for kept in [*pathlib.Path(path).iterdir(), *home.iterdir()]:
            if kept.is_dir() and kept != home:
                shutil.rmtree(kept)
            elif kept != home and kept.name != "lock":
                kept.unlink()


def plan(path: Path) -> dict[str, Any] | None:
    """Return what a store was asked and how it is cut; None where it is not laid out."""
    try:
        found = json.loads(pathlib.Path(path, HOME, PLAN).read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return None
    return found if isinstance(found, dict) and found.get("format") == FORMAT else None


def settle(
    path: Path, variables: Iterable[str], coordinates: Iterable[str], layout: Layout, asked: Any
) -> None:
    """Say that a store is laid out."""
    root = pathlib.Path(path)
    there = (f for f in root.rglob("*") if f.is_file() and f.parent != root)
    names = [f.relative_to(root).as_posix() for f in there if HOME not in f.relative_to(root).parts]
    found = {
        "format": FORMAT,
        "asked": asked,
        "layout": dataclasses.asdict(layout),
        "variables": list(variables),
        "coordinates": list(coordinates),
        "files": prints(root, names),
        "attributes": json.loads((root / ".zattrs").read_text(encoding="utf-8")),
    }
    replace(root / HOME / PLAN, found, path)


def replace(path: pathlib.Path, content: Any, of: Path | None = None) -> None:
    """Write a JSON file whole or not at all; ``of`` is what an error names."""
    with replacing(path, of) as temporary:
        pathlib.Path(temporary).write_text(json.dumps(content), encoding="utf-8")


def prints(root: pathlib.Path, names: Iterable[str]) -> Files:
    """Return what tells each file of a store from a damaged one."""
    found: Files = {}
    for name in names:
        content = (root / name).read_bytes()
        found[name] = [len(content), zlib.crc32(content)]
    return found


def misfit(path: Path, files: Files, thorough: bool) -> str | None:
    """Return the first file that is not as it was written: by its size, or by every bit."""
    root = pathlib.Path(path)
    for name, known in files.items():
        try:
            if (root / name).stat().st_size != known[0]:
                return name
            if thorough and prints(root, [name])[name] != known:
                return name
        except OSError:
            return name
    return None


def append(path: Path, line: Mapping[str, Any]) -> None:
    """Add a line to the record; one that a kill has torn stays apart from it."""
    with open(pathlib.Path(path, HOME, RECORD), "ab+") as stream:
        end = stream.seek(0, os.SEEK_END)
        stream.seek(max(end - 1, 0))
        torn = stream.read(1) not in (b"", b"\n")
        stream.write((b"\n" if torn else b"") + json.dumps(line).encode() + b"\n")
        stream.flush()
        os.fsync(stream.fileno())


def record(path: Path) -> dict[int | str, dict[str, Any]]:
    """Return the last line of each chunk in the record; a torn line is none."""
    found: dict[int | str, dict[str, Any]] = {}
    with os_errors(path, "read"), contextlib.suppress(FileNotFoundError):
        for line in pathlib.Path(path, HOME, RECORD).read_bytes().splitlines():
            with contextlib.suppress(ValueError, LookupError, TypeError):
                entry = json.loads(line)
                found[entry["chunk"]] = {"files": dict(entry["files"]), "sums": entry["sums"]}
    return found


def sound(path: Path) -> dict[int | str, dict[str, Any]]:
    """Return the lines of the record whose files are as they were written, to the last bit."""
    lines = record(path)
    return {n: line for n, line in lines.items() if misfit(path, line["files"], True) is None}


def tidy(path: Path) -> None:
    """Remove what a killed writer left half-written."""
    with os_errors(path):
        for left in pathlib.Path(path).rglob("*.partial"):
            left.unlink()
