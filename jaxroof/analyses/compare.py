"""Systems side by side, each with the best plan of a training step and its own accelerators."""

import dataclasses
import json
import re
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
import xarray as xr

from jaxroof.catalog.lookup import system as named_system
from jaxroof.catalog.lookup import with_chip
from jaxroof.engine.grid.chunks import Progress
from jaxroof.engine.search.none_legal import check_legal
from jaxroof.engine.search.problem import constraints_of
from jaxroof.engine.search.search import search
from jaxroof.errors import InputError, NoAnswer, refusal, shown
from jaxroof.estimator import Estimator
from jaxroof.estimators import estimator as named
from jaxroof.estimators.training.interval import Uncertain, chance_sooner
from jaxroof.estimators.training.precision import (
    BF16,
    MACHINE,
    PRECISION,
    settings_by_system,
    with_precision,
)
from jaxroof.settings import apply_settings, by_path

FORM = "SYSTEM, SYSTEM:GPUS or SYSTEM:GPUS:PRECISION"
_CONTENDER = re.compile(r"((?:[A-Za-z]:)?[^:]+)(?::([1-9]\d{0,8})?(?::(\w+))?)?")


def system_of(
    estimator: Estimator, name: str, number_format: str | None = None, chip: Any = None
) -> Any:
    """Return a system as an estimator of a training step has it."""
    if estimator.expand is None:  # the study's: peaks by number format, no chips
        return named_system(name, number_format)
    machine, _ = with_chip({}, name, chip)
    return estimator.names["system"](machine) if isinstance(machine, str) else machine


class Contender(NamedTuple):
    """A system to compare; its accelerators and its number format where they are its own."""

    system: str
    gpus: int | None = None
    number_format: str | None = None

    @property
    def text(self) -> str:
        """Return it as it is typed."""
        own = "" if self.gpus is None else str(self.gpus)
        return ":".join([self.system, own, self.number_format or ""]).rstrip(":")

    @property
    def words(self) -> str:
        """Return its name in tables and pictures."""
        many = f"{self.gpus:,} x " if self.gpus is not None else ""
        return many + self.system + (f", {self.number_format}" if self.number_format else "")


def compare(
    *,
    system: str | Sequence[str],
    model: str | Sequence[str],
    global_batch: float,
    gpus: int | Sequence[int] | None = None,
    where: Any = (),
    estimator: Estimator | str = "training",
    number_format: str | None = None,
    splits: Sequence[Any] = (),
    settings: Mapping[str, Any] | None = None,
    progress: Progress | None = None,
    **more: Any,
) -> xr.Dataset:
    """Return the best plan of each of some systems, side by side.

    ``system`` are names or files, each with accelerators and a number format of its own if it
    says so: ``"h800-nvs8:2048:fp8"``. Several ``model`` or ``gpus`` cross with them. ``settings``
    and ``more`` change fields on every system; of the study's estimator, ``number_format`` is that
    of the peaks and ``splits`` an axis.

    Returns: a Dataset over ``system`` (and ``model``, ``gpus``, ``split`` where there are several)
    of plan fields and results, ``memory_limit``, and, where step times have intervals, ``sooner``:
    the probability that the fastest of a model and size is sooner than this one, see
    ``chance_sooner``. The attribute ``without`` says which systems have no step time, and why.
    Raises: InputError for bad input; NoAnswer if no system has a step time.

    >>> pair = ["h100-nvs8:8", "a100-80-sxm:16"]
    >>> data = compare(system=pair, model="llama3-8b", global_batch=8, where="tp=1")
    >>> [str(name) for name in data.system.values], bool(0.5 < data.sooner.max() < 1.0)
    (['8 x h100-nvs8', '16 x a100-80-sxm'], True)
    """
    of = named(estimator) if isinstance(estimator, str) else estimator
    chosen = by_path(of.shorthand, {**(settings or {}), **more})
    names = [model] if isinstance(model, str) else list(model)
    sizes = [*gpus] if isinstance(gpus, Sequence) else [] if gpus is None else [gpus]
    contenders = _contenders(system, sizes, bool(number_format or PRECISION in chosen))
    records = {name: _model(of, name) for name in names}
    machines, without = _machines(of, contenders, chosen, number_format)
    start = of.inputs(
        model=next(iter(records.values()))[0],
        system=machines[0].record,
        gpus=float(machines[0].contender.gpus or sizes[0]),
        global_batch=global_batch,
    )
    records, machines = _with_settings(of, start, records, machines)
    axes, rest = _axes(records, machines)
    axes |= ({"gpus": sizes} if len(sizes) > 1 else {}) | ({"split": splits} if splits else {})
    rest = {key: value for key, value in rest.items() if key not in axes}
    grid: dict[str, Any] = {"axes": axes, "where": constraints_of(of, where), "settings": rest}
    data = _by_name(search(of, start, progress=progress, **grid))
    if not data.plans_legal.values.any():
        check_legal(of, start, **grid)
    data["memory_limit"], title = _limits(of, start, machines), _title(names, data)
    asked = {"gpus": sizes, "global_batch": global_batch, "number_format": number_format}
    asked |= {"system": [one.text for one in contenders], "model": names, "settings": chosen}
    asked |= {"splits": [getattr(one, "value", one) for one in splits]}
    tokens = {name: float(record.training_tokens) for name, (record, _) in records.items()}
    said = _texts(options=asked, models=tokens, without=without)
    return data.assign(_sooner(data)).assign_attrs(said, question="compare", title=title)


def _texts(**about: Any) -> dict[str, str]:
    return {name: json.dumps(value, default=str) for name, value in about.items()}


class NoStepTime(NoAnswer):
    """None of the systems has a step time; ``without`` says why, for each."""

    def __init__(self, without: dict[str, str]) -> None:
        super().__init__(next(iter(without.values())))
        self.without = without


class Machine(NamedTuple):
    """A system with the settings as they are on it."""

    contender: Contender
    record: Any
    settings: dict[str, Any]


def contender(text: str) -> Contender:
    """Return a system to compare from a text such as ``h800-nvs8:2048:fp8``.

    Raises: InputError for a text of another form.

    >>> contender("gb200-nvl72:1024:mxfp8").words, contender("h100-nvs8::fp8").gpus
    ('1,024 x gb200-nvl72, mxfp8', None)
    """
    match = _CONTENDER.fullmatch(text.strip())
    if match is None:
        raise refusal("system", f"expected {FORM}, given {shown(text)}")
    name, count, form = match.groups()
    return Contender(name, int(count) if count else None, form or None)


def _contenders(
    system: str | Sequence[str], sizes: Sequence[int], precise: bool
) -> list[Contender]:
    """Return the systems to compare, each with accelerators if some have their own.

    Raises: InputError for what is given twice, or not at all.
    """
    found = [contender(text) for text in ([system] if isinstance(system, str) else system)]
    for one in found:
        if found.count(one) > 1:
            raise refusal("system", f"{one.words}: given twice; expected each once")
        if one.number_format and precise:
            raise refusal("system", f"{one.words}: its precision is given for all systems too")
    own = any(one.gpus for one in found)
    if own and len(sizes) > 1:
        raise refusal(
            "gpus", "several, beside systems with their own; expected one number, or none"
        )
    if not sizes and not all(one.gpus for one in found):
        lacks = next(one for one in found if not one.gpus)
        raise refusal("gpus", f"missing; expected a number, or {lacks.system}:GPUS")
    if own:
        found = [one._replace(gpus=one.gpus or int(sizes[0])) for one in found]
    if any(one.number_format for one in found):
        found = [one._replace(number_format=one.number_format or BF16) for one in found]
    return found


def _machines(
    of: Estimator, found: Sequence[Contender], chosen: Mapping[str, Any], number_format: str | None
) -> tuple[list[Machine], dict[str, str]]:
    """Return each system with its settings, and why others have no step time.

    Raises: InputError for a name that there is not; NoStepTime if none has one.
    """
    machines, without = [], {}
    for one in found:
        form = one.number_format or number_format
        try:
            record = _record(of, one.system, form, chosen.get("chip"))
            machines.append(Machine(one, record, _settings(of, one, chosen)))
        except NoAnswer as error:
            without[one.words] = str(error)
    if not machines:
        raise NoStepTime(without)
    return machines, without


def _model(of: Estimator, name: str) -> Any:
    try:
        return of.names["model"](name)
    except InputError as error:
        raise refusal("model", str(error)) from None


def _record(of: Estimator, system: str, number_format: str | None, chip: Any) -> Any:
    try:
        return system_of(of, system, number_format, chip)
    except NoAnswer:
        raise
    except InputError as error:
        raise refusal("system", str(error)) from None


def _settings(of: Estimator, one: Contender, chosen: Mapping[str, Any]) -> dict[str, Any]:
    """Return the settings as they are on one of the systems."""
    if of.expand is None:  # no number formats by name, no chips
        return dict(chosen)
    own = {PRECISION: one.number_format} if one.number_format else {}
    return with_chip(with_precision({**chosen, **own}, one.system, of), one.system)[1]


def _with_settings(
    of: Estimator, start: Any, records: Mapping[str, Any], machines: Sequence[Machine]
) -> tuple[dict[str, Any], list[Machine]]:
    """Return models and systems with the settings applied, since an axis sets all their fields."""

    def changed(settings: dict[str, Any], **record: Any) -> Any:
        return apply_settings(dataclasses.replace(start, **record), of.recipe, settings)[0]

    first = machines[0].settings
    models = {
        name: (changed(first, model=one).model, more) for name, (one, more) in records.items()
    }
    systems = (changed(one.settings, system=one.record).system for one in machines)
    return models, [m._replace(record=s) for m, s in zip(machines, systems, strict=True)]


def _axes(
    records: Mapping[str, Any], machines: Sequence[Machine]
) -> tuple[dict[str, Any], dict[str, Any]]:
    """Return the axes over models and systems, and the settings that all systems share."""
    shared, differ = settings_by_system([one.settings for one in machines])
    if any(one.contender.gpus for one in machines):
        differ["gpus"] = [one.contender.gpus for one in machines]
    table = {one.contender.words: one.record for one in machines}
    along: dict[str, Any] = {MACHINE: {"system": table, **differ}} if differ else {"system": table}
    if len(records) > 1:
        return {"model": dict(records), **along}, shared
    return along, {"model": next(iter(records.values())), **shared}


def _limits(of: Estimator, start: Any, machines: Sequence[Machine]) -> xr.Variable:
    """Return the memory that a step may fill on each system."""
    assert of.limit is not None
    about = {"units": "B", "long_name": "Memory that a step may fill"}
    held = [dataclasses.replace(start, system=one.record) for one in machines]
    return xr.Variable("system", np.array([float(of.limit(one)) for one in held]), about)


def _by_name(data: xr.Dataset) -> xr.Dataset:
    """Return results over the names of the systems, without what their settings stand for."""
    if MACHINE not in data.dims:
        return data
    named = data.swap_dims({MACHINE: "system"})
    along = {str(name) for name, c in named.coords.items() if c.dims == ("system",)}
    return named.drop_vars(along - {"system", "gpus"})


def _sooner(data: xr.Dataset) -> dict[str, xr.DataArray]:
    """Return how likely the fastest of each model and size is sooner than each of the others."""
    if "step_time_high" not in data or data.sizes["system"] < 2:
        return {}
    half = 0.5 * np.log(data.step_time_high / data.step_time_low)
    times = data.step_time.fillna(np.inf)
    best = times.argmin("system")
    each = (data.step_time, half, data.regime)
    fastest = (part.isel(system=best) for part in each)
    chances = xr.apply_ufunc(_chances, *fastest, *each)
    said = "Probability that the fastest is sooner than this"
    return {"sooner": chances.assign_attrs(units="1", long_name=said)}


def _chances(*columns: Any) -> Any:
    return chance_sooner(Uncertain(*columns[:3]), Uncertain(*columns[3:]))


def _title(models: Sequence[str], data: xr.Dataset) -> str:
    of = json.loads(data.attrs["inputs"])
    sizes = np.unique(data["gpus"].values if "gpus" in data.coords else of["gpus"])
    on = f" on {', '.join(f'{int(size):,}' for size in sizes)} accelerators"
    return f"{', '.join(models)}{on}: the best plan of each"
