"""Elasticities over a grid: what binds at every point, by how much, and where that changes."""

from collections.abc import Iterator

import numpy as np
import xarray as xr

from jaxroof.analyses.result_metadata import resources_of, shares
from jaxroof.units import percent
from jaxroof.views.text.layout import PlainTable, Shown
from jaxroof.views.text.said import REPORT, Page, Said, quiet, title, usual
from jaxroof.views.text.sweep import sweep_sentences
from jaxroof.views.text.tables import crossed, thinned, tick

MOST = 8  # columns shown of a grid
LEAST = 1e-12  # smaller elasticities are rounding error


def answer(data: xr.Dataset, page: Page = REPORT) -> Iterator[Said]:
    """Yield what binds most, and where that changes."""
    yield from title(str(data.attrs.get("title", "")))
    yield from usual(binding_sentence(data))
    yield from quiet(binding_table(data))
    yield from usual(*sweep_sentences(data.drop_dims("parameter")))


def strengths(data: xr.Dataset) -> tuple[xr.DataArray, dict[str, str]]:
    """Return the strength of each limit, over ``limit``, and the displayed names of the limits.

    The limits are resources, by their share of the time, if the parameters are a machine's. Else
    they are the parameters themselves, by the size of their elasticity.
    """
    paths = [str(path) for path in data.parameter.values]
    if binds(data):
        known = resources_of(data)
        return shares(data.elasticity, known), dict(known.limits)
    bare = data.elasticity.drop_vars(["parameter_units", "relaxed"], errors="ignore")
    return abs(bare.rename(parameter="limit")), {path: path for path in paths}


def binds(data: xr.Dataset) -> bool:
    """Return whether elasticities are those of a time with respect to a machine's parameters."""
    signs = resources_of(data).signs
    return of_time(data) and any(str(path) in signs for path in data.parameter.values)


def of_time(data: xr.Dataset) -> bool:
    """Return whether elasticities are those of a time."""
    of = data.attrs.get("of")
    return of not in data or data[of].attrs.get("units") in ("s", "day")


def binding_table(data: xr.Dataset) -> PlainTable:
    """Return what binds over a thinned grid of up to two axes; without axes, a row a parameter."""
    strong, names = strengths(data)
    dims = [str(dim) for dim in data.elasticity.dims if dim != "parameter"]
    of = data.attrs.get("of", "result")
    if not dims or len(dims) > 2:
        at = ", ".join(f"{dim} {tick(data, dim, 0)}" for dim in dims)
        return _parameters(data.isel(dict.fromkeys(dims, 0)), of, f"; at {at}" if at else "")
    if len(dims) == 1:
        title = f"Share of {of} by what binds it [%]" if binds(data) else f"Elasticity of {of}"
        return _rows(data, strong, names, dims[0], title)
    title = f"What binds {of} most, and its share of it [%]"
    most = 2 * MOST, MOST
    return crossed(data, dims, title, lambda at: _most(strong.isel(at), names), most)


def _parameters(data: xr.Dataset, of: str, at: str) -> PlainTable:
    def below(one: xr.Dataset) -> str:
        return f"{float(one.elasticity_below):+.4f}" if bool(one.tie) else ""

    real = " (taken as real)"
    columns = [
        Shown(
            "parameter", lambda one: f"{one.parameter.values}{real * bool(one.relaxed)}", 0, "left"
        ),
        Shown("elasticity", lambda one: f"{float(one.elasticity):+.4f}"),
        Shown("for a decrease,\nwhere that differs", below),
    ]
    title = f"Elasticity of {of}: change for +1 % of the parameter [%]{at}"
    rows = [data.isel(parameter=i) for i in range(data.sizes["parameter"])]
    return PlainTable(title).add_rows(columns, rows)


def _rows(
    data: xr.Dataset, strong: xr.DataArray, names: dict[str, str], dim: str, title: str
) -> PlainTable:
    """Return one row per point: the shares of the resources, or the elasticities themselves."""
    resources = binds(data)
    if not resources:  # the strongest parameters, in their original order
        most = strong.max([d for d in strong.dims if d != "limit"]).fillna(0.0).values
        keys = strong.limit.values[sorted(np.argsort(-most, kind="stable")[:MOST])]
        names = {key: key.replace(".", ".\n").replace("_", "_\n") for key in map(str, keys)}
    shown = strong if resources else data.elasticity.rename(parameter="limit")

    def limit(key: str, head: str) -> Shown:
        def cell(i: int) -> str:
            value = float(shown.isel({dim: i}).sel(limit=key))
            told = f"{100 * value:.1f}" if resources else f"{value:+.4f}"
            return "-" if np.isnan(value) else told

        return Shown(head, cell)

    columns = [Shown(dim, lambda i: tick(data, dim, i)), *(limit(*one) for one in names.items())]
    return PlainTable(title).add_rows(columns, thinned(data.sizes[dim], 4 * MOST))


def _most(one: xr.DataArray, names: dict[str, str]) -> str:
    if not bool(np.isfinite(one).all()):
        return "-"
    key = str(one.limit.values[int(one.argmax("limit"))])
    return f"{names[key].replace(' bandwidth', '')} {100 * float(one.max()):.0f}"


def binding_sentence(data: xr.Dataset) -> str:
    """Return how often each resource, or parameter, is the strongest, and how strong it is."""
    strong, names = strengths(data)
    shared = binds(data)
    values = strong.transpose(..., "limit").values.reshape(-1, strong.sizes["limit"])
    held = values[np.isfinite(values).all(axis=1)]
    if not len(held):
        return "Nothing fits anywhere: nothing binds."
    if held.max() < LEAST:
        return f"Nothing asked about moves {data.attrs.get('of', 'the result')}."
    most = held.argmax(axis=1)
    most_of = {i: held[most == i, i].max() for i in np.unique(most)}
    said = [
        f"{names[str(strong.limit.values[i])]} "
        f"at {percent(float(np.mean(most == i)))} of the points "
        + (
            f"(up to {percent(most_of[i])} of the time)"
            if shared
            else f"(by {most_of[i]:.3g} at most)"
        )
        for i in np.argsort(-np.bincount(most, minlength=values.shape[1]))
        if i in most_of
    ]
    return f"What {'binds' if shared else 'matters'} most: {'; '.join(said)}."
