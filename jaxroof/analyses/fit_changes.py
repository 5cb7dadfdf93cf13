"""The cheapest changes that make a training step fit, or those that make it shorter."""

import dataclasses
import json
from collections.abc import Iterable, Iterator, Mapping
from typing import Any, NamedTuple

import numpy as np
import xarray as xr

from jaxroof.analyses.fit_candidates import (
    KINDS,
    PATHS,
    Changed,
    Points,
    at_once,
    freeing,
    legal,
    pairs,
    recipes,
    with_points,
)
from jaxroof.analyses.fit_question import Question, asked_question
from jaxroof.analyses.fit_time import step_times
from jaxroof.analyses.layer_splits import even_where_it_fits, split_words
from jaxroof.estimators.training.inputs import TrainingPlan
from jaxroof.estimators.training.planned import planned
from jaxroof.estimators.training.recipe import EXCHANGES, LayerDivision
from jaxroof.estimators.training.stage_memory import host_by_stage, memory_by_stage
from jaxroof.records import replace_at

MOST = 5  # changes that are shown
CLOSE = 1e-9  # costs that differ by less are equal
UNTIMED = "activations.offload_activations"  # as a given split of layers: no step time knows it
OFFLOADED = ("plan.offload_optimizer", UNTIMED)
ABOUT = {  # of the results: unit, meaning
    "cost": ("1", "Step time more than now, over that of now; missing where it is not known"),
    "step_time": ("s", "Step time, as a search has it; missing where it is not known"),
    "device": ("B", "Peak of the fullest stage's device"),
    "saved": ("B", "Bytes that the change saves on the fullest stage"),
    "fits": ("", "Whether the fullest stage fits"),
}


class Change(NamedTuple):
    """A change of a plan, with what it costs and what it saves."""

    settings: Mapping[str, Any]  # by the names that a question takes
    kinds: frozenset[str]
    cost: float  # NaN where no step time is known
    step_time: float
    device: float
    fits: bool


def fit_changes(
    *,
    model: Any,
    plan: Mapping[str, Any],
    system: Any,
    global_batch: Any,
    most: int = MOST,
    settings: Mapping[str, Any] | None = None,
    **more: Any,
) -> xr.Dataset:
    """Return the cheapest changes that make a training step fit; if it fits, those that shorten it.

    Arguments are those of ``fit``. Tried are all single changes of recomputation, ZeRO stage,
    microbatch, interleaving, degrees on as many accelerators, sequence parallelism, offload,
    kernels and layers of a stage; then, while fewer than ``most`` kinds of them fit, pairs. Of
    changes of one kind the cheapest is kept. The cost is what the step time of the estimator
    ``training`` grows by, over what it is now. Where that is not known (no calibrated chip;
    offloaded activations; layers moved between stages) it is missing, and the changes are ranked
    by memory alone, after those with a cost.

    Returns: a Dataset over ``change``, single ones before pairs, cheapest first: ``set`` (what to
    set, in JSON), ``cost``, ``step_time``, ``device``, ``saved``, ``fits``. If nothing fits, it has
    the changes that need least.
    Raises: InputError as ``fit`` does.

    >>> data = fit_changes(model="llama3-8b", system="h100-nvs8", plan={"dp": 8}, global_batch=128)
    >>> bool(data.fits.all())
    True
    """
    asked = asked_question(
        model=model, plan=plan, system=system, global_batch=global_batch, settings=settings, **more
    )
    return changes_dataset(asked, most)


def changes_dataset(asked: Question, most: int = MOST) -> xr.Dataset:
    """Return the changes of a checked question, as ``fit_changes`` does."""
    own, found = cheapest_changes(asked, most)
    columns: dict[str, Any] = {
        "set": np.array([json.dumps(one.settings) for one in found], dtype=np.str_),
        "cost": [one.cost for one in found],
        "step_time": [one.step_time for one in found],
        "device": [one.device for one in found],
        "saved": [own.device - one.device for one in found],
        "fits": np.array([one.fits for one in found], dtype=bool),
    }
    data = xr.Dataset(
        {name: ("change", values) for name, values in columns.items()},
        attrs={
            "question": "fit_changes",
            "device": own.device,
            "step_time": own.step_time,
            "fits": int(own.fits),
        },
    )
    for name, (unit, text) in ABOUT.items():
        data[name].attrs.update({"long_name": text} | ({"units": unit} if unit else {}))
    data["set"].attrs["long_name"] = "What to set, in JSON"
    return data


def changes_json(data: xr.Dataset) -> str:
    """Return changes as a list in JSON, one object each; a cost that is not known is null."""
    names = [str(name) for name in data.data_vars if name != "set"]

    def plain(value: Any) -> Any:
        return None if value != value else value

    return json.dumps(
        [
            {"set": json.loads(str(row["set"].values))}
            | {name: plain(row[name].values.item()) for name in names}
            for row in (data.isel(change=place) for place in range(data.sizes["change"]))
        ]
    )


def cheapest_changes(asked: Question, most: int = MOST) -> tuple[Change, list[Change]]:
    """Return the plan as it is, and the cheapest changes, one of each kind.

    Single changes come before pairs.
    """
    search = _Search(asked)
    own = search.own
    single = list(search.singles())
    if own.fits:
        gains = [one for one in single if one.fits and one.cost < -CLOSE]
        return own, _best_of_kind(gains)[:most]
    fitting = _best_of_kind(one for one in single if one.fits)
    if len(fitting) < most:
        both = list(search.pairs())
        known = {frozenset(one.settings.items()) for one in single if one.fits}
        alone = {one.device for one in single if one.fits}  # a part without effect adds nothing
        two = [
            one
            for one in both
            if one.fits
            and one.device not in alone
            and not any(some <= frozenset(one.settings.items()) for some in known)
        ]
        fitting += _best_of_kind(two)
        single += both
    if not fitting:
        leaner = [one for one in single if one.device < own.device]
        fitting = _first_of_kind(sorted(leaner, key=lambda one: one.device))
    return own, fitting[:most]


def _best_of_kind(changes: Iterable[Change]) -> list[Change]:
    """Return the cheapest change of each kind, cheapest first; of equal ones the leaner.

    Those whose cost is not known come last, the leanest first.
    """

    def order(one: Change) -> tuple[float, float, int]:
        known = one.cost == one.cost
        shorter = len(str(one.settings))  # of two equal
        return round(one.cost, 9) if known else np.inf, one.device, shorter

    return _first_of_kind(sorted(changes, key=order))


def _first_of_kind(changes: Iterable[Change]) -> list[Change]:
    found: dict[frozenset[str], Change] = {}
    for one in changes:
        found.setdefault(one.kinds, one)
    return list(found.values())


# ---- Search -------------------------------------------------------------------------------------


class _Search:
    """The changes of one question, evaluated many points at once."""

    def __init__(self, asked: Question) -> None:
        self.asked = asked
        self.modules = freeing(asked.inputs, asked.recipe)
        self.points = at_once(asked.inputs, asked.recipe.context_exchange is None)
        self.as_it_is = Changed({}, float(asked.step.plan.recompute), asked.recipe)
        ((device, time, fits),) = self._evaluated(self.as_it_is, self.points.values[:1])
        self.own = Change({}, frozenset(), 0.0, time, device, fits)

    def singles(self) -> Iterator[Change]:
        """Yield every single change that is legal and saves or gains something."""
        yield from self._changed(self.points, self.as_it_is)
        for change in self._recipes():
            yield from self._changed(_first(self.points), change)

    def pairs(self) -> Iterator[Change]:
        """Yield every pair of changes that is legal."""
        yield from self._changed(pairs(self.points), self.as_it_is)
        for one in self._recipes():
            yield from self._changed(_later(self.points), one)
            for two in recipes(one.level, one.recipe, self.modules):
                if not {*one.said} & {*two.said} or {"modules"} == {*one.said} & {*two.said}:
                    both = two._replace(said={**one.said, **two.said})
                    yield from self._changed(_first(self.points), both)

    def _recipes(self) -> Iterator[Changed]:
        own = self.as_it_is
        yield from recipes(own.level, own.recipe, self.modules)
        split = even_where_it_fits(self.asked)
        if split:
            divided = dataclasses.replace(own.recipe, layer_division=split)
            yield Changed({"layer_split": split_words(split)}, own.level, divided)

    def _changed(self, points: Points, change: Changed) -> Iterator[Change]:
        """Yield the legal ones of points under a change of the recipe."""
        said = change.said
        moved = points.changed[:, [PATHS.index("plan.pipeline"), PATHS.index("plan.interleave")]]
        for again in (False, True):  # a split of layers is for its own number of stages
            some = Points(*(part[moved.any(axis=1) == again] for part in points))
            split = again and isinstance(change.recipe.layer_division, tuple)
            if "layer_split" in said and again:
                continue
            even = dataclasses.replace(change.recipe, layer_division=LayerDivision.EVEN)
            there = change._replace(recipe=even) if split else change
            extra = {"layer_split": "even"} if split else {}
            allowed = legal(with_points(self.asked.inputs, some.values), there.recipe)
            some = Points(*(part[allowed] for part in some))
            found = self._evaluated(there, some.values)
            for values, changed, (device, time, fits) in zip(*some, found, strict=True):
                settings = {**said, **_settings(values, changed), **extra}
                if not settings or not np.isfinite(device):
                    continue
                timed = "layer_split" not in said and not changed[PATHS.index(UNTIMED)]
                step_time = time if timed else np.nan
                yield Change(
                    settings,
                    frozenset({*_kinds(changed), *(_KIND.get(name, name) for name in said)}),
                    step_time / self.own.step_time - 1.0,
                    step_time,
                    device,
                    fits,
                )

    def _evaluated(self, change: Changed, values: np.ndarray) -> list[tuple[float, float, bool]]:
        """Return the device's bytes, the step time of every point, and whether it fits.

        The memory of points of as many stages and chunks is evaluated at once.
        """
        shape = values[:, [PATHS.index("plan.pipeline"), PATHS.index("plan.interleave")]]
        device, host = np.empty(len(values)), np.zeros(len(values))
        there = self.asked.inputs.system.host_capacity
        share = np.array([PATHS.index(path) for path in OFFLOADED])
        level: Any = np.float64(change.level)
        inputs, recipe = replace_at(self.asked.inputs, "plan.recompute", level), change.recipe
        for alike in np.unique(shape, axis=0):
            places = np.flatnonzero((shape == alike).all(axis=1))
            here = planned(with_points(inputs, values[places]), recipe)
            device[places] = np.max(memory_by_stage(here, recipe).device, axis=-1)
            if there is not None and values[np.ix_(places, share)].any():
                host[places] = np.max(host_by_stage(here, recipe), axis=-1)
        time = step_times(with_points(inputs, values), recipe)
        fits = (device <= self.asked.capacity) & (host <= (np.inf if there is None else there))
        return list(zip(device.tolist(), time.tolist(), fits.tolist(), strict=True))


_KIND = {"modules": "recomputation", "recompute": "recomputation"}


def _first(points: Points) -> Points:
    return Points(points.values[:1], points.changed[:1])


def _later(points: Points) -> Points:
    return Points(points.values[1:], points.changed[1:])


def _kinds(changed: np.ndarray) -> set[str]:
    return {KINDS[path] for path, moved in zip(PATHS, changed, strict=True) if moved}


def _settings(values: np.ndarray, changed: np.ndarray) -> dict[str, Any]:
    """Return what differs by the short names that a question takes."""
    return {
        SHORTEST[path]: EXCHANGES[int(value)] if path == "plan.exchange" else float(value)
        for path, value, moved in zip(PATHS, values, changed, strict=True)
        if moved
    }


def _short(path: str) -> str:
    name = path.rpartition(".")[2]
    field = TrainingPlan.__dataclass_fields__.get(name)
    return str(field.metadata["symbol"] or name) if field else name


SHORTEST = {path: _short(path) for path in PATHS}
