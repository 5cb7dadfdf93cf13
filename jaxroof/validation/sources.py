"""The measured rows that travel with the package: where they are from, what is fitted to them."""

import functools
import gzip
import importlib.resources
import io
import tomllib
from typing import NamedTuple

import pandas as pd

from jaxroof.errors import unknown
from jaxroof.io.csv_blocks import RowFile
from jaxroof.validation.rows import Rows, read_table, rows_of, together

NOTHING = "nothing"  # with which `fitted` begins for a source that the fit never saw


class Source(NamedTuple):
    """One file of measured rows."""

    title: str
    where: str  # repository or paper, and what in it
    fitted: str  # what of the model was made with these rows in view
    noise: str = ""  # what is known of the spread of its measurements
    licence: str = ""  # of the repository; the rows are figures transcribed from it


@functools.cache
def sources(of: str) -> dict[str, Source]:
    """Return the sources of ``steps``, of ``memory`` or of ``runs`` by name.

    >>> sources("steps")["mt_nlg_a100"].title
    'Megatron-Turing NLG 530B'
    """
    written = tomllib.loads(_folder().joinpath("sources.toml").read_text("utf-8"))
    return {name: Source(**entry) for name, entry in written[of].items()}


@functools.cache
def packaged(of: str, name: str) -> pd.DataFrame:
    """Return the rows of a source of ``steps``, of ``memory`` or of ``runs``.

    >>> len(packaged("steps", "mt_nlg_a100"))
    3
    """
    if name not in sources(of):
        what = {"steps": "measured steps", "memory": "measured memory", "runs": "whole runs"}
        what |= {"serving": "measured servers"}
        raise unknown("--source", name, f"source of {what[of]}", sources(of))
    return read_table(RowFile(io.BytesIO(_unpacked(f"{of}/{name}")), name))


def packaged_rows(of: str, source: str | None = None) -> Rows:
    """Return all packaged rows of ``steps`` or ``memory``, or those of one source."""
    names = list(sources(of)) if source is None else [source]
    return together({name: rows_of(packaged(of, name)) for name in names})


def _unpacked(name: str) -> bytes:
    plain = _folder().joinpath("data", f"{name}.csv")
    if plain.is_file():
        return plain.read_bytes()
    return gzip.decompress(_folder().joinpath("data", f"{name}.csv.gz").read_bytes())


def _folder() -> importlib.resources.abc.Traversable:
    return importlib.resources.files(__package__)
