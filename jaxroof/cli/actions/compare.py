"""The compare command: systems and splits side by side."""

import xarray as xr

from jaxroof.analyses.compare import NoStepTime, compare
from jaxroof.cli.actions.arguments import _listed, parse_settings, parse_split
from jaxroof.cli.actions.console import OPTION_OF, say, say_all
from jaxroof.cli.actions.outputs import check_output, report_written, write_or_draw
from jaxroof.cli.actions.search_options import searched
from jaxroof.cli.counts import parse_count, parse_counts
from jaxroof.cli.progress import progress_bar
from jaxroof.errors import InputError
from jaxroof.estimators.published.step import published
from jaxroof.views.text.compare import answer, without_sentences
from jaxroof.views.text.detail import Detail

NAMED = ("model", "system", "gpus")  # arguments that errors of the library name


def compare_command(
    *,
    estimator: str,
    model_names: str,
    system_names: str,
    number_format: str | None,
    gpus: str | None,
    batch: str,
    splits: str,
    where: str,
    sets: tuple[str, ...],
    output: str | None,
) -> int:
    """Search every system and split given, print them side by side; return the exit status."""
    check_output(output)
    of = searched(estimator)
    try:
        with progress_bar() as progress:
            data = compare(
                system=_listed("--system", system_names),
                model=_listed("--model", model_names),
                gpus=parse_counts("--gpus", gpus) if gpus else None,
                global_batch=parse_count("--batch", batch),
                where=where,
                estimator=of,
                number_format=number_format,
                splits=[parse_split(one) for one in _listed("--split", splits)] * (of is published),
                settings=parse_settings(sets, OPTION_OF),
                progress=progress,
            )
    except NoStepTime as error:
        say(Detail.USUAL, *without_sentences(error.without))
        return 1
    except InputError as error:
        if (where := str(error).partition(":")[0]) not in NAMED:
            raise
        raise InputError(str(error).replace(where, OPTION_OF[where], 1)) from None
    write_or_draw(output, data, lambda plots: plots.comparison(_beside(data)))
    say_all(answer(data))
    report_written(output)
    return 0 if bool(data.feasible.any()) else 1


def _beside(data: xr.Dataset) -> xr.Dataset:
    """Return the systems side by side for every cluster size, for a picture."""
    if "gpus" not in data.sizes:
        return data
    each = []
    for size in data.gpus.values:
        some = data.sel(gpus=size).drop_vars("gpus")
        each.append(some.assign_coords(system=[f"{size:,} x {s}" for s in data.system.values]))
    return xr.concat(each, "system", data_vars="all", join="outer", combine_attrs="override")
