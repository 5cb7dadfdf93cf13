"""One page of HTML with the answers of stored results: sentences, pictures, tables, provenance."""

import datetime
import os
import pathlib
from collections.abc import Sequence

import xarray as xr

from jaxroof.errors import refusal
from jaxroof.io.atomic import Path, replace_file
from jaxroof.io.formats import CSV, check_placeable, read_stamped
from jaxroof.limits import check_memory
from jaxroof.views.report.page import page
from jaxroof.views.report.provenance import Result

ENDINGS = (".html", ".htm")
MOST = 200  # results in a page


def report(results: Path | xr.Dataset | Sequence[Path | xr.Dataset], path: Path) -> None:
    """Write one page of HTML that shows stored results: it needs no server and no network.

    ``results`` are files (.nc, .json, .zarr) or Datasets. Each has its sentences and tables as
    its command prints them, a picture to zoom, its assumptions, and what made it. Texts of files
    are shown as text, whatever they hold. The page appears whole or not at all.
    Raises: InputError for another ending than .html, for a file that cannot be read, and where the
    page cannot be written.

    >>> import tempfile, jaxroof as jr
    >>> data = jr.evaluate("matmul", batch=8, hidden=64, feedforward=64, system="tpu-v5e")
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     report(data, f"{folder}/page.html")
    ...     pathlib.Path(folder, "page.html").read_text(encoding="utf-8")[:15]
    '<!doctype html>'
    """
    each = [results] if isinstance(results, str | os.PathLike | xr.Dataset) else list(results)
    check_page(path, len(each))
    found = [_result(one, place) for place, one in enumerate(each, 1)]
    text = page(found)
    with replace_file(path) as temporary:
        pathlib.Path(temporary).write_text(text, encoding="utf-8")


def check_page(path: Path, count: int) -> None:
    """Check, before any work, that a page of some results can be written.

    Raises: InputError with the reason it cannot.
    """
    if pathlib.Path(path).suffix not in ENDINGS:
        raise refusal(os.fspath(path), "a page of HTML; expected a name that ends in .html")
    if not 1 <= count <= MOST:
        raise refusal(os.fspath(path), f"a page of 1 to {MOST} results, given {count}")
    check_placeable(path)


def _result(given: Path | xr.Dataset, place: int) -> Result:
    """Return a result with all its values in memory.

    Raises: InputError for a file that cannot be read, TooLarge for values that do not fit.
    """
    if isinstance(given, xr.Dataset):
        return Result(f"result {place}", given, {}, is_file=False)
    name = os.fspath(given)
    if name.endswith(CSV):
        raise refusal(name, "a CSV has no units and no question; expected .nc, .json or .zarr")
    data, stamps = read_stamped(name)
    check_memory(f"{name}: its results", 2.0 * data.nbytes, "expected a smaller file")
    time = datetime.datetime.fromtimestamp(pathlib.Path(name).stat().st_mtime, datetime.UTC)
    written = time.strftime("%Y-%m-%d %H:%M:%S UTC")
    return Result(pathlib.Path(name).name, data.load(), stamps, written)
