"""A model's file that was dropped in, read by the catalogue's own checked readers."""

import tomllib
from collections.abc import Callable
from typing import Any

from jaxroof import catalog
from jaxroof.app.state import KINDS, TRAINING, Upload
from jaxroof.catalog import huggingface
from jaxroof.catalog.lookup import architecture_with_choices, model_with_choices
from jaxroof.errors import refusal

READERS: dict[str, Callable[[Any], Any]] = {
    "architectures": architecture_with_choices,
    "models": model_with_choices,
}


def model_of(own: Upload, estimator: str = TRAINING) -> tuple[Any, dict[str, str]]:
    """Return the record of a model's file, and the structural choices that come with it.

    Raises: InputError of the reader, which starts with the file's name.

    >>> config = '{"model_type": "gpt2", "n_layer": 2, "n_embd": 8, "n_head": 2, "vocab_size": 50'
    >>> record, choices = model_of(Upload("config.json", config + ', "n_positions": 16}'))
    >>> float(record.layers), choices["norm"]
    (2.0, 'layernorm')
    """
    kind = KINDS[estimator]
    if own.name.endswith(".json"):
        if estimator != TRAINING:
            raise refusal(own.name, "a whole model; expected it with the estimator training")
        written = huggingface.entry(own.name, own.text)
    else:
        try:
            written = tomllib.loads(own.text)
        except (ValueError, RecursionError) as error:
            raise refusal(own.name, f"not TOML: {error}; expected a TOML file") from None
    found: tuple[Any, dict[str, str]] = READERS[kind](catalog.Table(own.name, written))
    return found
