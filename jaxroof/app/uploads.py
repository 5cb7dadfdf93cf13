"""Files of a model and of a system that were dropped in, read by the catalogue's own readers."""

import tomllib
from collections.abc import Mapping
from typing import Any

from jaxroof import catalog
from jaxroof.app.state import Upload
from jaxroof.catalog import huggingface
from jaxroof.catalog.lookup import architecture_with_choices
from jaxroof.errors import refusal

NAMES = ("base", "chip")  # fields of a file that name another entry
MOST_LINE = 500  # characters of a line: a key of thousands of parts takes a minute to read


def model_of(own: Upload) -> tuple[Any, dict[str, str]]:
    """Return the record of a model's file, and the structural choices that come with it.

    Raises: InputError of the reader, which starts with the file's name.

    >>> config = '{"model_type": "gpt2", "n_layer": 2, "n_embd": 8, "n_head": 2, "vocab_size": 50'
    >>> record, choices = model_of(Upload("config.json", config + ', "n_positions": 16}'))
    >>> float(record.layers), choices["norm"]
    (2.0, 'layernorm')
    """
    if own.name.endswith(".toml"):
        return architecture_with_choices(table_of(own))
    config = huggingface.entry(own.name, own.text)
    return architecture_with_choices(catalog.Table(own.name, config))


def table_of(own: Upload) -> catalog.Table:
    """Return what a TOML file says; the entries that it changes are those of the catalogue.

    Raises: InputError for what is no TOML, and for a path: no file of this machine is opened.

    >>> table_of(Upload("m.toml", 'base = "/etc/passwd"'))
    Traceback (most recent call last):
    jaxroof.errors.InputError: m.toml: base: a path; expected a name of the catalogue
    """
    if not own.name.endswith(".toml"):
        raise refusal(own.name, "expected a .toml file")
    longest = max(map(len, own.text.splitlines()), default=0)
    if longest > MOST_LINE:
        raise refusal(own.name, f"a line of {longest:,} characters; expected at most {MOST_LINE}")
    try:
        written = tomllib.loads(own.text)
    except (ValueError, RecursionError) as error:
        raise refusal(own.name, f"not TOML: {error}; expected a TOML file") from None
    for where, inside in ((own.name, written), (f"{own.name}: chip", written.get("chip"))):
        named = {name: inside.get(name) for name in NAMES} if isinstance(inside, Mapping) else {}
        for field, name in named.items():
            if isinstance(name, str) and catalog.is_file(name):
                raise refusal(f"{where}: {field}", "a path; expected a name of the catalogue")
    return catalog.Table(own.name, written)
