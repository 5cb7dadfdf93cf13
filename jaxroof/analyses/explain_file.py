"""An explanation as one Dataset, which a file holds, and back."""

import dataclasses
import json

import xarray as xr

from jaxroof.analyses.explain import Explanation
from jaxroof.errors import refusal

QUESTION = "explanation"
PARTS = tuple(field.name for field in dataclasses.fields(Explanation))


def explanation_dataset(found: Explanation, title: str = "") -> xr.Dataset:
    """Return an explanation as one Dataset: names begin with those of its parts.

    >>> import jaxroof as jr
    >>> found = jr.explain(model="llama3-8b", system="h100-nvs8", gpus=8, global_batch=8,
    ...                    where="cp=1,off=0")
    >>> again = explanation_of(explanation_dataset(found))
    >>> all(getattr(again, part).identical(getattr(found, part)) for part in PARTS)
    True
    """
    parts = {part: getattr(found, part) for part in PARTS}
    data = xr.merge([_named(one, f"{part}.") for part, one in parts.items()])
    about = {f"{part}.attrs": json.dumps(one.attrs) for part, one in parts.items()}
    told = {"question": QUESTION, **({"title": title} if title else {})}
    return data.assign_attrs({**found.elasticities.attrs, **told, **about})


def _named(data: xr.Dataset, start: str) -> xr.Dataset:
    """Return a Dataset whose names all begin alike, and that has no attributes."""
    names = {*data.variables, *data.dims}
    return data.rename({name: f"{start}{name}" for name in names}).drop_attrs(deep=False)


def explanation_of(data: xr.Dataset) -> Explanation:
    """Return the explanation that a Dataset holds.

    Raises: InputError for a Dataset that holds none.
    """
    try:
        return Explanation(**{part: _part(data, part) for part in PARTS})
    except (LookupError, ValueError, TypeError) as error:
        raise refusal("explanation", "not in this file, or damaged") from error


def _part(data: xr.Dataset, part: str) -> xr.Dataset:
    start = f"{part}."
    of = [name for name in data.variables if str(name).startswith(start)]
    found = data[of].drop_vars([name for name in data.coords if name not in of], errors="ignore")
    names = {name: str(name).removeprefix(start) for name in {*found.variables, *found.dims}}
    bare = found.rename(names).drop_attrs(deep=False)
    return bare.assign_attrs(json.loads(data.attrs[f"{start}attrs"]))
