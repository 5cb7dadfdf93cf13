"""Systems side by side, each with the best plan of a training step and its own accelerators."""

import json
import re
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
import xarray as xr

from jaxroof.catalog.lookup import system as named_system
from jaxroof.catalog.lookup import with_chip
from jaxroof.engine.grid.chunks import Progress
from jaxroof.engine.grid.question import Question, ask
from jaxroof.engine.search.none_legal import check_legal
from jaxroof.engine.search.problem import constraints_of
from jaxroof.engine.search.search import search
from jaxroof.errors import InputError, NoAnswer, refusal, shown
from jaxroof.estimator import Estimator
from jaxroof.estimators import estimator as named
from jaxroof.estimators import on_system
from jaxroof.estimators.training.interval import Uncertain, chance_sooner
from jaxroof.estimators.training.precision import BF16, MACHINE, PRECISION
from jaxroof.estimators.whole_run.run import with_node
from jaxroof.missing import lacking
from jaxroof.records import last_name, leaves
from jaxroof.settings import by_path, choices_of

FORM = "SYSTEM, SYSTEM:GPUS or SYSTEM:GPUS:PRECISION"
_CONTENDER = re.compile(r"((?:[A-Za-z]:)?[^:]+)(?::([1-9]\d{0,8})?(?::(\w+))?)?")


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
    global_batch: float | None = None,
    gpus: int | Sequence[int] | None = None,
    where: Any = (),
    estimator: Estimator | str = "training",
    number_format: str | None = None,
    splits: Sequence[Any] = (),
    dispatchers: Sequence[str] = (),
    settings: Mapping[str, Any] | None = None,
    progress: Progress | None = None,
    **more: Any,
) -> xr.Dataset:
    """Return the best plan of each of some systems, side by side.

    ``system`` are names or files, each with accelerators and a number format of its own if it
    says so: ``"h800-nvs8:2048:fp8"``. Several ``model``, ``gpus`` or ``dispatchers`` of experts
    cross with them. ``settings`` and ``more`` change fields on every system; of the study's
    estimator, ``number_format`` is that of the peaks and ``splits`` an axis.

    Returns: a Dataset over ``system`` (and ``model``, ``gpus``, ``split``, ``dispatcher`` where
    there are several) of plan fields and results, ``memory_limit``, and, where step times have
    intervals, ``sooner``: the probability that the fastest of a model and size is sooner than this
    one, see ``chance_sooner``. The attribute ``without`` says which have no step time, and why.
    Raises: InputError for bad input; NoAnswer if no system has a step time.

    >>> pair = ["h100-nvs8:8", "a100-80-sxm:16"]
    >>> data = compare(system=pair, model="llama3-8b", global_batch=8, where="tp=1")
    >>> [str(name) for name in data.system.values], bool(0.5 < data.sooner.max() < 1.0)
    (['8 x h100-nvs8', '16 x a100-80-sxm'], True)
    """
    leading = contender(system if isinstance(system, str) else next(iter(system))).system
    of = on_system(named(estimator) if isinstance(estimator, str) else estimator, leading)
    chosen = by_path(of.shorthand, {**(settings or {}), **more})
    names = [model] if isinstance(model, str) else list(model)
    sizes = [*gpus] if isinstance(gpus, Sequence) else [] if gpus is None else [gpus]
    contenders = _contenders(system, sizes, bool(number_format or PRECISION in chosen))

    def asked(one: Contender, name: str = names[0]) -> Question:
        given = {"model": name, "gpus": float(one.gpus or sizes[0]), "global_batch": global_batch}
        return _asked(of, one, {**given, **chosen}, number_format)

    machines: dict[Contender, Question] = {}
    without: dict[str, str] = {}
    for entrant in contenders:
        try:
            machines[entrant] = asked(entrant)
        except NoAnswer as error:
            without[entrant.words] = str(error)
    if not machines:
        raise NoStepTime(without)
    first, start = next(iter(machines.items()))
    read = {name: _read("model", of.names["model"], name) for name in names}
    choices = {name: one[1] if isinstance(one, tuple) else {} for name, one in read.items()}
    models = {name: (asked(first, name).inputs.model, more) for name, more in choices.items()}
    axes: dict[str, Any] = {"model": models} if len(models) > 1 else {}
    axes |= _machine_axis(machines)
    axes |= ({"gpus": sizes} if len(sizes) > 1 else {}) | ({"split": splits} if splits else {})
    axes |= {"dispatcher": [*dispatchers]} if dispatchers else {}
    known = choices_of(of.recipe)
    rest = {key: value for key, value in chosen.items() if key in known and key not in axes}
    rest |= {} if "model" in axes else {"model": models[names[0]]}  # with what it chooses
    grid: dict[str, Any] = {"axes": axes, "where": constraints_of(of, where), "settings": rest}
    data = _by_name(search(of, start.inputs, progress=progress, **grid))
    if not data.plans_legal.values.any():
        check_legal(of, start.inputs, **grid)
    if of.limit is not None:
        most = np.array([float(of.limit(one.inputs)) for one in machines.values()])
        about = {"units": data[of.need].attrs["units"], "long_name": "What a plan may need"}
        data[f"{of.need}_limit"] = xr.Variable("system", most, about)
    options = {
        "gpus": sizes,
        "global_batch": global_batch,
        "number_format": number_format,
        "system": [one.text for one in contenders],
        "model": names,
        "settings": chosen,
        "splits": [getattr(one, "value", one) for one in splits],
        "dispatchers": [*dispatchers],
    }
    tokens = {name: float(record.training_tokens) for name, (record, _) in models.items()}
    told = {"options": options, "models": tokens, "without": without}
    if len(models) > 1:
        parts = {name: leaves(record) for name, (record, _) in models.items()}
        told["layers"] = {
            name: {p: float(n) for p, _, n in one if n} for name, one in parts.items()
        }
    texts = {name: json.dumps(value, default=str) for name, value in told.items()}
    own = json.loads(data.attrs["inputs"])
    many = np.unique(data["gpus"].values if "gpus" in data.coords else own["gpus"])
    on = f" on {', '.join(f'{int(size):,}' for size in many)} accelerators"
    title = f"{', '.join(names)}{on}: the best plan of each"
    return data.assign(_sooner(data)).assign_attrs(texts, question="compare", title=title)


class NoStepTime(NoAnswer):
    """None of the systems has a step time; ``without`` says why, for each."""

    def __init__(self, without: dict[str, str]) -> None:
        super().__init__(next(iter(without.values())))
        self.without = without


def contender(text: str) -> Contender:
    """Return a system to compare from a text such as ``h800-nvs8:2048:fp8``.

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
    """Return the systems to compare, each with accelerators if some have their own."""
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


def _asked(
    of: Estimator, one: Contender, given: Mapping[str, Any], number_format: str | None
) -> Question:
    record = _read("system", _system_of, of, one, number_format, given.get("chip"))
    _read("model", of.names["model"], given["model"])
    if of.expand is None:  # no number formats by name, no chips
        return ask(of, settings={**given, "system": record})
    own = {PRECISION: one.number_format} if one.number_format else {}
    found = ask(of, settings={**given, **own, "system": one.system})
    absent = lacking(of, found.inputs, found.recipe, searched=True)
    lacks = [last_name(number.path) for number in absent if number.path.startswith("system.")]
    if lacks:
        raise NoAnswer(f"{one.system}: lacks {', '.join(lacks)}; expected a system that has them")
    run = getattr(found.inputs, "operation", None) is not None
    return found._replace(inputs=with_node(found.inputs)) if run else found


def _system_of(of: Estimator, one: Contender, number_format: str | None, chip: Any) -> Any:
    number_format = one.number_format or number_format
    if of.expand is None and number_format:  # peaks by number format, no chips
        return named_system(one.system, number_format)
    machine, _ = with_chip({}, one.system, chip)
    return of.names["system"](machine) if isinstance(machine, str) else machine


def _read(key: str, reader: Callable[..., Any], *given: Any) -> Any:
    """Return a record by name; what is wrong with the name is said of its key."""
    try:
        return reader(*given)
    except NoAnswer:
        raise
    except InputError as error:
        raise refusal(key, str(error)) from None


def _machine_axis(machines: Mapping[Contender, Question]) -> dict[str, Any]:
    """Return the axis of the systems, with what else differs between them."""
    table = {one.words: asked.inputs.system for one, asked in machines.items()}
    each = [
        {path: float(value) for path, _, value in leaves(asked.inputs) if value is not None}
        for asked in machines.values()
    ]
    columns = {p: [one[p] for one in each] for p in each[0] if not p.startswith("system.")}
    moved: dict[str, Any] = {p: column for p, column in columns.items() if len({*column}) > 1}
    if any(one.gpus for one in machines):
        moved["gpus"] = [one.gpus for one in machines]
    return {MACHINE: {"system": table, **moved}} if moved else {"system": table}


def _by_name(data: xr.Dataset) -> xr.Dataset:
    """Return results over the names of the systems, without what their settings stand for."""
    if MACHINE not in data.dims:
        return data
    named = data.swap_dims({MACHINE: "system"})
    along = {str(name) for name, c in named.coords.items() if c.dims == ("system",)}
    return named.drop_vars(along - {"system", "gpus"})


def _sooner(data: xr.Dataset) -> dict[str, xr.DataArray]:
    """Return how likely the fastest of each model and size is sooner than each of the others."""
    beside = [dim for dim in ("system", "dispatcher") if data.sizes.get(dim, 1) > 1]
    if "step_time_high" not in data or not beside:
        return {}
    half = 0.5 * np.log(data.step_time_high / data.step_time_low)
    times = data.step_time.fillna(np.inf)
    best = times.argmin(beside)
    each = (data.step_time, half, data.regime)
    fastest = (part.isel(best) for part in each)

    def chances_of(*columns: Any) -> Any:
        return chance_sooner(Uncertain(*columns[:3]), Uncertain(*columns[3:]))

    chances = xr.apply_ufunc(chances_of, *fastest, *each)
    said = "Probability that the fastest is sooner than this"
    return {"sooner": chances.assign_attrs(units="1", long_name=said)}
