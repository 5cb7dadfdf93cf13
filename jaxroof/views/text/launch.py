"""What is said of the best plan as options of the software that launches it."""

from collections.abc import Iterator

import xarray as xr

from jaxroof.analyses.result_metadata import head_of
from jaxroof.catalog.launch_options import Launch, launch_options
from jaxroof.errors import listing
from jaxroof.estimators.training.recipe import Module, modules_of
from jaxroof.estimators.training.stages import chunk_split
from jaxroof.views.text.said import Said, quiet, usual

LAUNCH = "launch"  # the attribute that names the software
WIDE = 76  # characters of a line of options
OF_EXPERTS = {Module.EXPERTS, Module.SHARED_EXPERTS, Module.EXPERT_ACTIVATION}


def launch_said(data: xr.Dataset) -> Iterator[Said]:
    """Yield the options of the best plan, and what no option says; nothing unless it is asked."""
    if LAUNCH not in data.attrs:
        return
    launch = launch_of(data, str(data.attrs[LAUNCH]))
    lines: list[str] = []
    line = ""
    for option in launch.options:
        if line and len(line) + len(option) >= WIDE:
            lines, line = [*lines, f"{line} \\"], ""
        line = f"{line} {option}".strip()
    yield from usual(f"As options of {launch.title}:")
    yield from quiet("\n".join([*lines, line]))
    without = f"No option of it says: {listing(list(launch.unsaid))}."
    rules = ",".join(f"{head_of(data, field)}{rule}" for field, rule in launch.able)
    if rules:
        without += f" What it can run is ranked with --where '{rules}'."
    yield from usual(without if launch.unsaid else "")


def launch_of(data: xr.Dataset, name: str) -> Launch:
    """Return the first plan of a search as options of a software."""
    from jaxroof.analyses.one_plan import question_of  # and what no other answer needs

    inputs, recipe = question_of(data)
    plan = {str(field): float(data[field][0]) for field in data.data_vars if _is_field(data, field)}
    model, modules = inputs.model, modules_of(recipe)
    chunks = int(plan["pipeline"] * plan["interleave"])
    modules = modules if float(model.experts) else modules - OF_EXPERTS
    modules = modules if float(model.kv_rank) else modules - {Module.LATENT_PROJECTION}
    return launch_options(
        name,
        plan,
        global_batch=float(inputs.global_batch),
        sequence=float(model.sequence),
        experts=float(model.experts),
        schedule=recipe.schedule.value,
        modules=sorted(module.value for module in modules),
        layers_of_chunks=chunk_split(model.layers, model.mtp_layers, chunks, recipe.layer_division),
        mtp_layers=float(model.mtp_layers),
    )


def _is_field(data: xr.Dataset, name: object) -> bool:
    """Return whether a variable is a field of the plan."""
    return "default" in data[name].attrs and data[name].dims == ("plan",)
