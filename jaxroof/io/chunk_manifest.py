"""The manifest of a Zarr store: its write lock, its sweep and layout, and its finished chunks.

It is the folder ``.jaxroof`` inside the store, with three files. ``lock`` is the write lock.
``plan.json`` has the sweep's fingerprint, the layout of the grid and all metadata; it is written
once the store is laid out. ``finished.jsonl`` has one line per finished chunk, with the size and
CRC-32 of each of its files. A chunk counts as missing unless a line matches its files. The plan and
every line have a CRC-32 of their own.
"""

import contextlib
import json
import os
import pathlib
import re
import shutil
import zlib
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from jaxroof.errors import InputError, refusal
from jaxroof.io.atomic import DAMAGE, Path, os_errors, replace_file

Files = dict[str, list[int]]  # [size, CRC-32] of each file, by its name inside the store
HOME = ".jaxroof"
PLAN, RECORD = "plan.json", "finished.jsonl"
FORMAT = 2  # of a store: arrays of Zarr format 3
END = "end"  # key of the last line: the attributes of the whole sweep are written
CHUNK = re.compile(r"\d+(\.\d+)*")  # name of a file that holds values
INSIDE = re.compile(rf"((?!\.+/)[^/\\]+/)*({CHUNK.pattern}|zarr\.json)")  # a file of a store
BLOCK = 1 << 22  # bytes of a file that are summed at once
SUM = "crc32"  # key of the checksum of the plan, or of a line
ANEW = "use --overwrite to start anew"


@contextlib.contextmanager
def write_lock(path: Path) -> Iterator[None]:
    """Lock a store against other writers during the block; the system frees a dead run's lock."""
    from filelock import FileLock, Timeout

    check_ours(path)
    home = pathlib.Path(path, HOME)
    with os_errors(path):
        home.mkdir(parents=True, exist_ok=True)
        try:
            lock = FileLock(home / "lock").acquire(timeout=0).lock
        except Timeout:
            raise refusal(os.fspath(path), "another run is writing it") from None
    try:
        yield
    finally:
        lock.release()


def check_ours(path: Path) -> None:
    """Check that a path may be written: it is free, empty, or a store that jaxroof wrote."""
    folder = pathlib.Path(path)
    if folder.exists() and not folder.is_dir():
        raise refusal(os.fspath(path), "a file, not a Zarr store; expected another name")
    with os_errors(path, "read"):
        strange = folder.is_dir() and any(folder.iterdir()) and not (folder / HOME).is_dir()
    if strange:
        said = "a directory that jaxroof did not write; expected another name"
        raise refusal(os.fspath(path), said)
    refuse_links(path)


def refuse_links(path: Path) -> None:
    """Check that a store holds its files itself: a link inside would read and write elsewhere."""
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
    """Return a store's plan: its sweep's fingerprint and layout; None if it is not laid out."""
    newer = False
    with contextlib.suppress(OSError, *DAMAGE):
        found = _proven(pathlib.Path(path, HOME, PLAN).read_bytes())
        newer = found["format"] > FORMAT
        if found["format"] == FORMAT and _inside([*found["files"], *found["metadata"]]):
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
    """Return an entry of the manifest after checking its CRC-32."""
    found = json.loads(text)
    known = found.pop(SUM, None)
    if known != _summed(found)[SUM]:
        raise ValueError(SUM)
    return found


def _inside(names: Iterable[str]) -> bool:
    return all(INSIDE.fullmatch(name) for name in names)


def write_plan(path: Path, found: Mapping[str, Any]) -> None:
    """Write the plan of a store that is laid out."""
    with replace_file(pathlib.Path(path, HOME, PLAN), path) as temporary:
        text = json.dumps(_summed({"format": FORMAT, **found}))
        pathlib.Path(temporary).write_text(text, encoding="utf-8")


def checksums(root: Path, names: Iterable[str]) -> Files:
    """Return the size and the CRC-32 of each file."""
    found: Files = {}
    for name in names:
        size = checksum = 0
        with open(os.path.join(root, name), "rb") as stream:
            while block := stream.read(BLOCK):
                size, checksum = size + len(block), zlib.crc32(block, checksum)
        found[name] = [size, checksum]
    return found


def first_damaged(path: Path, files: Files, thorough: bool) -> str | None:
    """Return the first damaged file: compare sizes, and CRC-32 too if ``thorough``."""
    for name, known in files.items():
        try:
            if os.path.getsize(os.path.join(path, name)) != known[0]:
                return name
            if thorough and checksums(path, [name])[name] != known:
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
    """Return the last line of each chunk in the record; incomplete or damaged lines are skipped."""
    found: dict[int | str, dict[str, Any]] = {}
    file = pathlib.Path(path, HOME, RECORD)
    with os_errors(file, "read"), contextlib.suppress(FileNotFoundError, NotADirectoryError):
        for line in file.read_bytes().splitlines():
            with contextlib.suppress(*DAMAGE):
                entry = _proven(line)
                if _inside(entry["files"]):
                    found[entry["chunk"]] = {"files": entry["files"], "sums": entry["sums"]}
    later = (file for file in pathlib.Path(path).glob("*/*") if file.name.strip("0."))
    if not found and any(CHUNK.fullmatch(file.name) for file in later):
        raise _lost(path, RECORD)
    return found


def verified(path: Path) -> dict[int | str, dict[str, Any]]:
    """Return the lines of the record whose files all match their CRC-32."""
    lines = record(path)
    return {
        n: line for n, line in lines.items() if first_damaged(path, line["files"], True) is None
    }


def remove_partials(path: Path) -> None:
    """Remove a killed writer's partial files."""
    with os_errors(path):
        for left in pathlib.Path(path).rglob("*.partial"):
            left.unlink()
