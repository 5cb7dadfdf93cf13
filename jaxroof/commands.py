"""What the commands do: read what was typed, ask the engine, print."""

import sys
import time
from typing import Any

import numpy as np
import xarray as xr
from rich.console import Console

from jaxroof.engine.constraints import constraints
from jaxroof.engine.question import ask
from jaxroof.engine.ranking import first_of_each, ranked
from jaxroof.engine.search import survey
from jaxroof.engine.store import writable, write
from jaxroof.errors import InputError, refusal
from jaxroof.estimators.training.inputs import Inputs, Plan
from jaxroof.estimators.training.plans import RULES
from jaxroof.estimators.training.step import memory_limit, training
from jaxroof.files import run as run_file
from jaxroof.named import model, system
from jaxroof.options import (
    PLAN_FIELDS,
    own_plan,
    plan_fields,
    refuse_illegal,
    settings,
    whole,
)
from jaxroof.units import parse
from jaxroof.views import tables, words
from jaxroof.views.layers import layer_table
from jaxroof.views.layers import layers as layers_of


def console() -> Console:
    """Return where results are printed; a pipe is as wide as the tables need."""
    wide = Console()
    return wide if wide.is_terminal else Console(width=max(wide.width, 160))


def search_command(
    *,
    model_name: str,
    system_name: str,
    number_format: str | None,
    gpus: str,
    batch: str,
    split: str,
    top: int,
    placements: bool,
    where: str,
    mine: str | None,
    within: str,
    objective: str | None,
    everything: bool,
    sets: tuple[str, ...],
    output: str | None,
) -> int:
    """Search one or several cluster sizes, print and write; return the exit status."""
    if everything and output is None:
        raise InputError("--all: writes every plan to a file; expected -o FILE.csv, .json or .nc")
    if output is not None:
        writable(output)
    sizes = [whole("--gpus", text) for text in gpus.split(",")]
    close = parse(within, "1", "--within")
    if close < 0:
        raise refusal("--within", f"expected a share of at least 0, such as 2%, given {within!r}")
    inputs = Inputs(model=model(model_name), system=system(system_name, number_format))
    chosen = {"global_batch": whole("--batch", batch), "split": split, **settings(sets)}
    rules = constraints(where, PLAN_FIELDS, tables.SHORT)
    found = []
    for size in sizes:
        question = ask(
            training, inputs, where=rules, objective=objective, top=top, gpus=size, **chosen
        )
        own = None if mine is None else own_plan(mine, question.inputs, question.recipe)
        data = survey(training, question.inputs, question.recipe, where=rules)
        order = ranked(training, data, question.objective, question.sign, data.feasible.values)
        shown = order if placements else first_of_each(training, data, order)
        found.append((size, question, data, order, shown[:top], own))
    if output is not None:
        write(_written(found, everything), output)
    page = console()
    if len(found) == 1:
        _print_one(page, *found[0][1:], close)
    else:
        _print_sizes(page, found)
    if output is not None:
        print(f"wrote {output}", file=sys.stderr)
    return 0 if any(len(order) for _, _, _, order, _, _ in found) else 1


def _print_one(
    page: Console,
    question: Any,
    data: xr.Dataset,
    order: np.ndarray,
    shown: np.ndarray,
    own: dict[str, int] | None,
    close: float,
) -> None:
    limit = float(memory_limit(question.inputs))
    refusals = {rule.name: rule.refusal for rule in RULES[question.recipe.split]}
    rules = [f"{c.field}{c.comparison}{c.value}" for c in question.where]
    if len(order):
        page.print(tables.plans_table(data, shown, limit))
        page.print(words.best_sentence(data.isel(plan=int(order[0])), limit), soft_wrap=True)
    else:
        sentence = words.nothing_fits(data, limit)
        page.print(sentence[0].upper() + sentence[1:], soft_wrap=True)
    page.print(words.counts_sentence(data, limit, refusals, rules), soft_wrap=True)
    if len(order):
        page.print(words.close_sentence(data, order, question.objective, close), soft_wrap=True)
    if own is not None:
        position = _position(data, own, order)
        page.print(
            words.mine_sentences(data, position, order, question.objective, limit), soft_wrap=True
        )


def _print_sizes(page: Console, found: list[Any]) -> None:
    rows = []
    for size, question, data, order, _, _ in found:
        best = data.isel(plan=int(order[0])) if len(order) else None
        limit = float(memory_limit(question.inputs))
        rows.append(
            {
                "gpus": size,
                "legal": data.sizes["plan"],
                "feasible": len(order),
                "best": best,
                "limit": limit,
            }
        )
    page.print(tables.sizes_table(rows))
    for size, question, data, order, _, own in found:
        limit = float(memory_limit(question.inputs))
        if not len(order):
            page.print(f"{size:,} gpus: {words.nothing_fits(data, limit)}", soft_wrap=True)
        elif own is not None:
            said = words.mine_sentences(
                data, _position(data, own, order), order, question.objective, limit
            )
            page.print(f"{size:,} gpus: {said}", soft_wrap=True)
    fits = [r["gpus"] for r in rows if r["best"] is not None]
    if fits:
        page.print(
            f"Scaling: throughput per accelerator relative to {fits[0]:,}, the first that fits.",
            soft_wrap=True,
        )


def _written(found: list[Any], everything: bool) -> xr.Dataset:
    """Return every plan, or the plans printed, of all sizes, with a column of sizes."""
    parts = []
    for size, _, data, _, shown, _ in found:
        some = data if everything else data.isel(plan=shown)
        about = {"units": "1", "long_name": "Accelerators"}
        count = xr.Variable("plan", np.full(some.sizes["plan"], size), about, {"_FillValue": -1})
        parts.append(xr.Dataset({"gpus": count, **some.data_vars}, attrs=some.attrs))
    whole = xr.concat(parts, "plan", combine_attrs="override") if len(parts) > 1 else parts[0]
    order = ["gpus", *[n for n in whole.data_vars if n != "gpus"]]
    return whole[order]


def layers_command(
    *,
    model_name: str,
    system_name: str,
    number_format: str | None,
    split: str,
    sets: tuple[str, ...],
    plan_text: str,
    output: str | None,
) -> None:
    """Print one layer's operations under a plan."""
    if output is not None:
        writable(output)
    machine = system(system_name, number_format)
    given = plan_fields("--plan", plan_text)
    degrees = {f: given.get(f, 1) for f in ("data", "tensor", "pipeline", "microbatch")}
    full = {**degrees, **_placement(degrees, int(machine.fast_domain)), **given}
    plan = Plan(**{f: np.float64(v) for f, v in full.items()})
    batch = np.float64(full["data"] * full["microbatch"])
    inputs = Inputs(model=model(model_name), system=machine, plan=plan, global_batch=batch)
    question = ask(training, inputs, split=split, **settings(sets))
    refuse_illegal("--plan", full, question.inputs, question.recipe)
    data = layers_of(question.inputs, question.recipe)
    if output is not None:
        write(data, output)
    page = console()
    page.print(layer_table(data))
    share = f"{full['fast_tensor']} of the {full['tensor']} tensor ranks share a fast domain"
    page.print(
        f"{float(data.time_forward.sum()) * 1e3:.4g} ms forward, "
        f"{float(data.time_backward.sum()) * 1e3:.4g} ms backward; "
        f"{float(data.weights.sum()) / 1e6:.4g} MB of weights, "
        f"{float(data.kept.sum()) / 1e6:.4g} MB kept a microbatch; {share}.",
        soft_wrap=True,
    )
    if output is not None:
        print(f"wrote {output}", file=sys.stderr)


def _placement(degrees: dict[str, int], domain: int) -> dict[str, int]:
    """Return a placement that gives the fast domain to tensor, then data ranks, then stages."""
    placed = {}
    for field in ("tensor", "data", "pipeline"):
        share = int(np.gcd(degrees[field], domain))
        placed[f"fast_{field}"] = share
        domain //= share
    return placed


def run_command(file: str, output: str | None) -> int:
    """Run a sweep file, print what it found and write it; return the exit status."""
    from rich.progress import BarColumn, Progress, TextColumn, TimeRemainingColumn

    if output is not None:
        writable(output)
    columns = (TextColumn("{task.description}"), BarColumn(), TimeRemainingColumn())
    start = time.perf_counter()
    page = Console(stderr=True)
    with Progress(*columns, console=page, transient=True, disable=not page.is_terminal) as bar:
        task = bar.add_task("evaluating", total=None)
        data = run_file(file, lambda done, total: bar.update(task, completed=done, total=total))
    took = time.perf_counter() - start
    if output is not None:
        write(data, output)
    page = console()
    page.print(f"[bold]{data.attrs['title']}[/bold]", soft_wrap=True)
    grid = tables.grid_table(data)
    if grid is not None:
        page.print(grid)
    for sentence in words.sweep_sentences(data):
        page.print(sentence, soft_wrap=True)
    print(f"{took:.2f} s" + (f", wrote {output}" if output else ""), file=sys.stderr)
    return 0 if "feasible" not in data or bool(data.feasible.any()) else 1


def _position(data: xr.Dataset, own: dict[str, int], order: np.ndarray) -> int:
    """Return the best position whose plan has the fields given, feasible ones first."""
    mask = np.ones(data.sizes["plan"], bool)
    for field, value in own.items():
        mask &= data[field].values == value
    if not mask.any():
        said = ", ".join(f"{field}={value}" for field, value in own.items())
        raise refusal("--mine", f"{said}: none of the {len(mask):,} legal plans has these fields")
    first = [int(i) for i in order if mask[i]]
    rest = np.flatnonzero(mask)
    return first[0] if first else int(rest[np.argmin(data.step_time.values[rest])])
