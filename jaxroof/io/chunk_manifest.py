"""The manifest of a Zarr store: its write lock, its sweep and layout, and its finished chunks.

It is the folder ``.jaxroof`` inside the store, with three files. ``lock`` is the write lock.
``plan.json`` has the sweep's fingerprint and the layout of the grid; it is written once the store
is laid out. ``finished.jsonl`` has one line per finished chunk, with the size and CRC-32 of each of
its files. A chunk counts as missing unless a line matches its files. The plan and every line have a
CRC-32 of their own.
"""

import contextlib
import dataclasses
import json
import os
import pathlib
import re
import shutil
import zlib
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from typing import Any

from jaxroof.errors import InputError, refusal
from jaxroof.io.atomic import os_errors, replace_file
from jaxroof.io.layout import Layout
from jaxroof.io.locks import Path, acquired

Files = dict[str, list[int]]  # [size, CRC-32] of each file, by its name inside the store
HOME = ".jaxroof"
PLAN, RECORD = "plan.json", "finished.jsonl"
FORMAT = 2  # of a store: arrays of Zarr format 3, in shards
END = "end"  # key of the last line: the attributes of the whole sweep are written
CHUNK = re.compile(r"\d+(\.\d+)*")  # name of a file that holds values
BLOCK = 1 << 22  # bytes of a file that are summed at once
SUM = "crc32"  # key of the checksum of the plan, or of a line
# what readers raise for a damaged or foreign file (RecursionError is a RuntimeError)
DAMAGE = (LookupError, ValueError, TypeError, AttributeError, ArithmeticError, RuntimeError)
UNFINISHED = {"unfinished": "chunks that are missing read as NaN, -1 or false; run the sweep again"}
ANEW = "use --overwrite to start anew"


@contextlib.contextmanager
def write_lock(path: Path) -> Iterator[None]:
    """Lock a store against other writers during the block.

    Raises: InputError if another run has locked it, or it cannot be written.
    """
    check_ours(path)
    home = pathlib.Path(path, HOME)
    with os_errors(path):
        home.mkdir(parents=True, exist_ok=True)
        lock = acquired(home / "lock", path)
    try:
        yield
    finally:
        lock.release()


def check_ours(path: Path) -> None:
    """Check that a path may be written: it is free, empty, or a store that jaxroof wrote.

    Raises: InputError if it is anything else.
    """
    folder = pathlib.Path(path)
    if folder.exists() and not folder.is_dir():
        raise refusal(os.fspath(path), "a file, not a Zarr store; expected another name")
    with os_errors(path, "read"):
        strange = folder.is_dir() and any(folder.iterdir()) and not (folder / HOME).is_dir()
    if strange:
        raise refusal(
            os.fspath(path), "a directory that jaxroof did not write; expected another name"
        )
    refuse_links(path)


def refuse_links(path: Path) -> None:
    """Check that a store holds its files itself: a link inside would read and write elsewhere.

    Raises: InputError that names the first link.
    """
    for folder, inner, files in os.walk(path):
        for name in (*inner, *files):
            if os.path.islink(os.path.join(folder, name)):
                inside = os.path.relpath(os.path.join(folder, name), path)
                said = f"damaged: {inside} is a link to elsewhere"
                raise refusal(os.fspath(path), f"{said}; expected what jaxroof wrote there")


def clear(path: Path) -> None:
    """Empty a store whose write lock is held."""
    home = pathlib.Path(path, HOME)
    with os_errors(path):
        (home / PLAN).unlink(missing_ok=True)  # first: the rest is invalid without the plan
        for kept in [*pathlib.Path(path).iterdir(), *home.iterdir()]:
            if kept.is_dir() and kept != home:
                shutil.rmtree(kept)
            elif kept != home and kept.name != "lock":
                kept.unlink()


def plan(path: Path) -> dict[str, Any] | None:
    """Return a store's plan: its sweep's fingerprint and layout; None if it is not laid out.

    Raises: InputError if the plan is lost or damaged although chunks are finished.
    """
    newer = False
    with contextlib.suppress(OSError, *DAMAGE):
        found = _proven(pathlib.Path(path, HOME, PLAN).read_bytes())
        newer = isinstance(found["format"], int) and found["format"] > FORMAT
        if found["format"] in [FORMAT] and _inside([*found["files"], *found.get("metadata", ())]):
            return found
    if newer:
        raise refusal(os.fspath(path), "laid out by a newer jaxroof; expected that to read it")
    if record(path):
        raise _lost(path, PLAN)
    return None


def _lost(path: Path, name: str) -> InputError:
    what = f"damaged: {HOME}/{name} is not as it was written, though chunks are finished"
    return refusal(os.fspath(path), f"{what}; put back a copy of it, or {ANEW}")


def _summed(content: Mapping[str, Any]) -> dict[str, Any]:
    """Return an entry of the manifest with its CRC-32 added."""
    return {**content, SUM: zlib.crc32(json.dumps(content).encode())}


def _proven(text: bytes) -> dict[str, Any]:
    """Return an entry of the manifest after checking its CRC-32.

    Raises: one of DAMAGE if the entry is damaged.
    """
    found = json.loads(text)
    known = found.pop(SUM, None)
    if known != _summed(found)[SUM]:
        raise ValueError(SUM)
    return found


def _inside(names: Iterable[str]) -> bool:
    """Return whether all names are array or metadata files inside the store."""
    parts = [pathlib.PurePath(name).parts for name in names]
    return all(
        ".." not in some
        and not pathlib.PurePath(*some).is_absolute()
        and (CHUNK.fullmatch(some[-1]) or some[-1].startswith((".z", "zarr.json")))
        for some in parts
    )


def write_manifest(
    path: Path,
    variables: Sequence[str],
    coordinates: Sequence[str],
    metadata: Mapping[str, Any],
    attributes: Mapping[str, Any],
    layout: Layout,
    asked: Any,
    filled: Sequence[str] = (),
) -> None:
    """Write the plan of a store that is laid out, with all of its metadata.

    ``metadata`` is that of the arrays, by file. ``filled`` are variables that have a fill value
    only until the store is finished.
    """
    root = pathlib.Path(path)
    files = [file for file in root.rglob("*") if CHUNK.fullmatch(file.name) and file.is_file()]
    found = {
        "format": FORMAT,
        "asked": asked,
        "layout": dataclasses.asdict(layout),
        "variables": variables,
        "coordinates": coordinates,
        "files": checksums(root, sorted(file.relative_to(root).as_posix() for file in files)),
        "metadata": metadata,
        "attributes": attributes,
        "filled": filled,
    }
    with replace_file(root / HOME / PLAN, path) as temporary:
        pathlib.Path(temporary).write_text(json.dumps(_summed(found)), encoding="utf-8")


def checksums(root: pathlib.Path, names: Iterable[str]) -> Files:
    """Return the size and the CRC-32 of each file."""
    found: Files = {}
    for name in names:
        size = checksum = 0
        with open(root / name, "rb") as stream:
            while block := stream.read(BLOCK):
                size, checksum = size + len(block), zlib.crc32(block, checksum)
        found[name] = [size, checksum]
    return found


def first_damaged(path: Path, files: Files, thorough: bool) -> str | None:
    """Return the first damaged file: compare sizes, and CRC-32 too if ``thorough``."""
    root = pathlib.Path(path)
    for name, known in files.items():
        try:
            if (root / name).stat().st_size != known[0]:
                return name
            if thorough and checksums(root, [name])[name] != known:
                return name
        except OSError:
            return name
    return None


def append(path: Path, line: Mapping[str, Any]) -> None:
    """Append a line to the record, on a new line if a kill left the last one incomplete."""
    with open(pathlib.Path(path, HOME, RECORD), "ab+") as stream:
        end = stream.seek(0, os.SEEK_END)
        stream.seek(max(end - 1, 0))
        torn = stream.read(1) not in (b"", b"\n")
        stream.write((b"\n" if torn else b"") + json.dumps(_summed(line)).encode() + b"\n")
        stream.flush()
        os.fsync(stream.fileno())


def record(path: Path) -> dict[int | str, dict[str, Any]]:
    """Return the last line of each chunk in the record; incomplete or damaged lines are skipped.

    Raises: InputError if no line is left although chunks are finished, or it cannot be read.
    """
    found: dict[int | str, dict[str, Any]] = {}
    file = pathlib.Path(path, HOME, RECORD)
    with os_errors(file, "read"), contextlib.suppress(FileNotFoundError, NotADirectoryError):
        for line in file.read_bytes().splitlines():
            with contextlib.suppress(*DAMAGE):
                entry = _proven(line)
                if _inside(entry["files"]):
                    found[entry["chunk"]] = {"files": entry["files"], "sums": entry["sums"]}
    if not found and _written(path):
        raise _lost(path, RECORD)
    return found


def _written(path: Path) -> bool:
    """Return whether files of later chunks exist, so that the record must have a line."""
    names = (file.name for file in pathlib.Path(path).glob("*/*"))
    return any(CHUNK.fullmatch(name) and name.strip("0.") for name in names)


def is_changed(path: Path) -> bool:
    """Return whether another program changed a line of the record; a kill only cuts one off."""
    with contextlib.suppress(OSError):
        for line in pathlib.Path(path, HOME, RECORD).read_bytes().splitlines():
            try:
                _proven(line)
            except DAMAGE:
                if line.endswith(b"}"):
                    return True
    return False


def verified(path: Path) -> dict[int | str, dict[str, Any]]:
    """Return the lines of the record whose files all match their CRC-32."""
    lines = record(path)
    return {
        n: line for n, line in lines.items() if first_damaged(path, line["files"], True) is None
    }


def remove_partials(path: Path, intact: Collection[int | str]) -> None:
    """Remove a killed writer's partial files, and damaged files of chunks not ``intact``."""
    root = pathlib.Path(path)
    for left in root.rglob("*.partial"):
        remove(left)
    for number, line in record(path).items():
        for name, known in line["files"].items() if number not in {*intact, END} else ():
            if first_damaged(path, {name: known}, True) is not None:
                remove(root / name)


def remove(file: pathlib.Path) -> None:
    """Remove a file before it is written again.

    Raises: InputError if it cannot be removed; a directory of that name is never removed.
    """
    with os_errors(file):
        file.unlink(missing_ok=True)
