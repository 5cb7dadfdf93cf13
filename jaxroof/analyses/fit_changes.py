"""The cheapest changes that make a training step fit, or those that make it shorter."""

import dataclasses
import itertools
import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
import xarray as xr

from jaxroof.analyses.fit_question import Question, asked_question
from jaxroof.estimators.legality import divisors
from jaxroof.estimators.training.inputs import TrainingInputs, planned
from jaxroof.estimators.training.layer.sums import freeing
from jaxroof.estimators.training.legality import verdicts
from jaxroof.estimators.training.plans import DEGREES
from jaxroof.estimators.training.recipe import (
    EXCHANGES,
    AttentionKernel,
    CrossEntropy,
    LayerDivision,
    Module,
    Split,
    TrainingRecipe,
    modules_of,
)
from jaxroof.estimators.training.stage_memory import host_by_stage, memory_by_stage
from jaxroof.estimators.training.stages import chunk_split
from jaxroof.estimators.training.step import training
from jaxroof.records import get_at, replace_at, with_named_absences
from jaxroof.units import equal_runs

MOST = 5  # changes that are shown
CLOSE = 1e-9  # costs that differ by less are equal
CHUNKS = 16.0  # most chunks of a stage that are tried
SHARES = (0.25, 0.5, 0.75, 1.0)  # of what is moved to the host
UNTIMED = "activations.offload_activations"  # as a given split of layers: no step time knows it
KINDS = {  # fields that change together, by the path of each
    **{f"plan.{name}": "degrees" for name in (*DEGREES, "exchange")},
    "plan.microbatch": "microbatch",
    "plan.interleave": "interleave",
    "plan.expert": "expert degrees",
    "plan.expert_tensor": "expert degrees",
    "plan.sequence_parallel": "sequence parallelism",
    "plan.zero_stage": "ZeRO stage",
    "plan.reshard": "ZeRO stage",
    "plan.offload_optimizer": "offload of the optimizer",
    UNTIMED: "offload of activations",
}
PATHS = tuple(KINDS)
STAGED = [PATHS.index(path) for path in ("plan.pipeline", "plan.interleave")]
OFFLOADED = [PATHS.index(path) for path in ("plan.offload_optimizer", UNTIMED)]
SHORTEST = {  # the names that a question takes
    path: training.shortest.get(path.removeprefix("plan."), path.rpartition(".")[2])
    for path in PATHS
}
RECOMPUTED = {"modules": "recomputation", "recompute": "recomputation"}  # choices of one kind
MISSING = "missing where it is not known"
ABOUT: dict[str, tuple[Any, str, str]] = {  # of the results: kind, unit, meaning
    "set": (np.str_, "", "What to set, in JSON"),
    "cost": (float, "1", f"Step time more than now, over that of now; {MISSING}"),
    "step_time": (float, "s", f"Step time, as a search has it; {MISSING}"),
    "device": (float, "B", "Peak of the fullest stage's device"),
    "saved": (float, "B", "Bytes that the change saves on the fullest stage"),
    "fits": (bool, "", "Whether the fullest stage fits"),
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
    rows = [
        (json.dumps(o.settings), o.cost, o.step_time, o.device, own.device - o.device, o.fits)
        for o in found
    ]
    columns = list(zip(*rows, strict=True)) or [()] * len(ABOUT)
    variables = {}
    for (name, (kind, unit, text)), column in zip(ABOUT.items(), columns, strict=True):
        about = {"long_name": text} | ({"units": unit} if unit else {})
        variables[name] = xr.Variable("change", np.array(column, dtype=kind), about)
    whole = {"device": own.device, "step_time": own.step_time, "fits": int(own.fits)}
    return xr.Dataset(variables, attrs={"question": "fit_changes", **whole})


def changes_json(data: xr.Dataset) -> str:
    """Return changes as a list in JSON, one object each; a cost that is not known is null."""
    rows = zip(*(data[name].values.tolist() for name in ABOUT), strict=True)
    every = [dict(zip(ABOUT, row, strict=True)) for row in rows]
    known = [{name: None if v != v else v for name, v in row.items()} for row in every]
    return json.dumps([row | {"set": json.loads(str(row["set"]))} for row in known])


def cheapest_changes(asked: Question, most: int = MOST) -> tuple[Change, list[Change]]:
    """Return the plan as it is, and the cheapest changes of each kind, single ones before pairs."""
    search = _Search(asked)
    own, single = search.own, list(search.singles())
    able = [one for one in single if one.fits]
    if own.fits:
        return own, _of_each_kind(one for one in able if one.cost < -CLOSE)[:most]
    fitting = _of_each_kind(able)
    if len(fitting) < most:
        both = list(search.pairs())
        known = [{*one.settings.items()} for one in able]
        alone = {one.device for one in able}  # a part without effect adds nothing
        two = [one for one in both if one.fits and one.device not in alone]
        apart = (one for one in two if not any(k <= {*one.settings.items()} for k in known))
        fitting += _of_each_kind(apart)
        single += both
    if not fitting:
        leaner = (one for one in single if one.device < own.device)
        fitting = _of_each_kind(leaner, lambda one: one.device)
    return own, fitting[:most]


def _cheapest(one: Change) -> tuple[float, float, int]:
    """Return the order of changes: unknown costs last; of equal ones the leaner, then shorter."""
    cost = round(one.cost, 9) if one.cost == one.cost else np.inf
    return cost, one.device, len(str(one.settings))


def _of_each_kind(changes: Iterable[Change], order: Any = _cheapest) -> list[Change]:
    found: dict[frozenset[str], Change] = {}
    for one in sorted(changes, key=order):
        found.setdefault(one.kinds, one)
    return list(found.values())


# ---- What is tried, many points at once ---------------------------------------------------------


class Changed(NamedTuple):
    """What would be set, and the level of recomputation and the recipe with it."""

    said: dict[str, Any]
    level: float
    recipe: TrainingRecipe


class _Search:
    """The changes of one question, evaluated many points at once: rows of values at PATHS."""

    def __init__(self, asked: Question) -> None:
        self.asked = asked
        self.modules = freeing(asked.inputs, asked.recipe)
        self.points = at_once(asked.inputs, asked.recipe.context_exchange is None)
        self.as_it_is = Changed({}, float(asked.step.plan.recompute), asked.recipe)
        ((device, time, fits),) = self._evaluated(self.as_it_is, self.points[:1])
        self.own = Change({}, frozenset(), 0.0, time, device, fits)

    def singles(self) -> Iterator[Change]:
        """Yield every single change that is legal and saves or gains something."""
        yield from self._changed(self.points, self.as_it_is)
        for change in self._recipes():
            yield from self._changed(self.points[:1], change)

    def pairs(self) -> Iterator[Change]:
        """Yield every pair of changes that is legal."""
        yield from self._changed(pairs(self.points), self.as_it_is)
        for one in self._recipes():
            yield from self._changed(self.points[1:], one)
            for two in recipes(one.level, one.recipe, self.modules):
                if {*one.said} & {*two.said} <= {"modules"}:
                    both = two._replace(said={**one.said, **two.said})
                    yield from self._changed(self.points[:1], both)

    def _recipes(self) -> Iterator[Changed]:
        own = self.as_it_is
        yield from recipes(own.level, own.recipe, self.modules)
        if split := even_where_it_fits(self.asked):
            divided = dataclasses.replace(own.recipe, layer_division=split)
            yield Changed({"layer_split": split_words(split)}, own.level, divided)

    def _changed(self, points: np.ndarray, change: Changed) -> Iterator[Change]:
        """Yield the legal ones of points under a change of the recipe.

        A split of layers is for its own number of stages: for others it becomes even.
        """
        restaged = (points != self.points[0])[:, STAGED].any(axis=1)
        yield from self._legal(points[~restaged], change)
        if "layer_split" in change.said:
            return
        if isinstance(change.recipe.layer_division, tuple):
            even = dataclasses.replace(change.recipe, layer_division=LayerDivision.EVEN)
            change = Changed({**change.said, "layer_split": "even"}, change.level, even)
        yield from self._legal(points[restaged], change)

    def _legal(self, points: np.ndarray, change: Changed) -> Iterator[Change]:
        points = points[legal(with_points(self.asked.inputs, points), change.recipe)]
        kinds = {RECOMPUTED.get(name, name) for name in change.said if change.said[name] != "even"}
        timed = change.said.get("layer_split", "even") == "even"
        found = self._evaluated(change, points)
        for values, (device, time, fits) in zip(points, found, strict=True):
            moved = np.flatnonzero(values != self.points[0])
            numbers = {PATHS[place]: float(values[place]) for place in moved}
            settings = change.said | {
                SHORTEST[path]: EXCHANGES[int(n)] if path == "plan.exchange" else n
                for path, n in numbers.items()
            }
            if settings and np.isfinite(device):
                step_time = time if timed and UNTIMED not in numbers else np.nan
                own = frozenset(kinds | {KINDS[path] for path in numbers})
                cost = step_time / self.own.step_time - 1.0
                yield Change(settings, own, cost, step_time, device, fits)

    def _evaluated(self, change: Changed, values: np.ndarray) -> list[tuple[float, float, bool]]:
        """Return the device's bytes, the step time of every point, and whether it fits.

        The memory of points of as many stages and chunks is evaluated at once.
        """
        device, host = np.empty(len(values)), np.zeros(len(values))
        there, level = self.asked.inputs.system.host_capacity, np.float64(change.level)
        inputs, recipe = replace_at(self.asked.inputs, "plan.recompute", level), change.recipe
        for alike in np.unique(values[:, STAGED], axis=0):
            places = np.flatnonzero((values[:, STAGED] == alike).all(axis=1))
            here = planned(with_points(inputs, values[places]), recipe)
            device[places] = np.max(memory_by_stage(here, recipe).device, axis=-1)
            if there is not None and values[places][:, OFFLOADED].any():
                host[places] = np.max(host_by_stage(here, recipe), axis=-1)
        time = step_times(with_points(inputs, values), recipe)
        fits = (device <= self.asked.capacity) & (host <= (np.inf if there is None else there))
        return list(zip(device.tolist(), time.tolist(), fits.tolist(), strict=True))


def step_times(inputs: TrainingInputs, recipe: TrainingRecipe) -> np.ndarray:
    """Return the step time of every plan [s] as ``training`` has it, NaN without a known chip."""
    assert inputs.plan is not None
    if inputs.system.chip is None:
        return np.full(np.shape(inputs.plan.data), np.nan)
    here = with_named_absences(inputs)
    with np.errstate(all="ignore"):
        parts = training.evaluate_parts(here, recipe)
        time: Any = training.result("step_time", here, recipe, parts)
    return np.broadcast_to(np.asarray(time, float), np.shape(inputs.plan.data))


def legal(inputs: TrainingInputs, recipe: TrainingRecipe) -> np.ndarray:
    """Return which points are legal."""
    step = planned(inputs, recipe)
    held = np.asarray(verdicts(step, recipe)["feasible"])
    return np.broadcast_to(held, np.shape(step.plan.data))


# ---- Other numbers of a plan --------------------------------------------------------------------


def at_once(inputs: TrainingInputs, exchanges: bool = True) -> np.ndarray:
    """Return the plan itself, then every plan that differs in one choice, legal or not.

    ``exchanges`` says whether context ranks may exchange in another way.
    """
    own = {path: float(get_at(inputs, path)) for path in PATHS}
    rows = [own, *({**own, **change} for change in _singles(inputs, own, exchanges))]
    return np.array([[row[path] for path in PATHS] for row in rows])


def _singles(
    inputs: TrainingInputs, own: Mapping[str, float], exchanges: bool
) -> Iterator[dict[str, float]]:
    other = {"plan.exchange": 1.0 - own["plan.exchange"]} if exchanges else {}
    if own["plan.context"] > 1.0 and other:
        yield other
    for less, more in itertools.permutations([f"plan.{name}" for name in DEGREES], 2):
        for factor in divisors(int(own[less]))[1:]:
            change = {less: own[less] / factor, more: own[more] * factor}
            yield change
            if more == "plan.context" and other:
                yield change | other
    model, plan = inputs.model, inputs.plan
    assert plan is not None
    of_rank = float(inputs.global_batch or 0.0) / own["plan.data"]
    ranks = float(plan.data * plan.tensor * plan.context)
    choices: dict[str, Iterable[float]] = {
        "plan.microbatch": _divisors(of_rank, own["plan.microbatch"]),
        "plan.interleave": _divisors(float(model.layers) / own["plan.pipeline"], CHUNKS),
        "plan.expert": _divisors(float(model.experts), ranks),
        "plan.expert_tensor": _divisors(float(model.expert_feedforward), own["plan.tensor"]),
        "plan.sequence_parallel": [1.0],
        "plan.zero_stage": [0.0, 1.0, 2.0, 3.0],
        "plan.reshard": [1.0],
        "plan.offload_optimizer": [0.0, *SHARES],
        UNTIMED: [0.0, *SHARES],
    }
    for path, values in choices.items():
        yield from ({path: value} for value in values if value != own[path])


def _divisors(number: float, most: float) -> Iterator[float]:
    whole = int(number) if number == int(number) else 0
    yield from (float(one) for one in divisors(whole) if one <= most)


def pairs(points: np.ndarray) -> np.ndarray:
    """Return the plans that differ from the first one in two choices of different kinds."""
    kinds, changed = np.array(list(KINDS.values())), points != points[0]
    touched = np.stack([changed[:, kinds == kind].any(axis=1) for kind in dict.fromkeys(kinds)])
    one, two = np.triu_indices(len(points), k=1)
    apart = ~(touched[:, one] & touched[:, two]).any(axis=0) & (one > 0)
    one, two = one[apart], two[apart]
    return np.where(changed[two], points[two], points[one])


def with_points(inputs: TrainingInputs, values: np.ndarray) -> TrainingInputs:
    """Return inputs whose plan and numbers are arrays over points."""
    for column, path in enumerate(PATHS):
        inputs = replace_at(inputs, path, values[:, column])
    return inputs


# ---- Other choices -----------------------------------------------------------------------------


def recipes(level: float, recipe: TrainingRecipe, modules: frozenset[Module]) -> Iterator[Changed]:
    """Yield recipes that differ in one choice from a recipe under a level of recomputation.

    More of some modules is computed again, or less; kernels are those that keep the least.
    """
    chosen = modules_of(recipe) if level == 1.0 else frozenset()
    own = chosen & modules
    sets = {frozenset({*own, module}) for module in modules}
    sets |= {own - {module} for module in own} | {frozenset[Module]()}
    if level == 2.0:  # less again
        sets |= {frozenset(two) for two in itertools.combinations(modules, 2)}
    else:
        sets -= {chosen}
        yield Changed({"recompute": "full"}, 2.0, recipe)
    for names, some in sorted((sorted(one.value for one in some), some) for some in sets):
        said = {"modules": ",".join(names)} if names else {"recompute": "none"}
        again = dataclasses.replace(recipe, selective=some)
        yield Changed(said, float(bool(names)), again)
    leaner: dict[str, Any] = {}
    if recipe.attention_kernel is AttentionKernel.UNFUSED:
        leaner["attention_kernel"] = AttentionKernel.CUDNN
    if recipe.cross_entropy is not CrossEntropy.FUSED:
        leaner["cross_entropy"] = CrossEntropy.FUSED
    for name, member in leaner.items():
        changed = dataclasses.replace(recipe, **{name: member})
        yield Changed({name: member.value}, level, changed)


# ---- Layers moved between stages ---------------------------------------------------------------


def even_where_it_fits(asked: Question) -> Split:
    """Return the most even split of layers whose stages all fit, or () if there is none.

    A stage needs a + b l for l layers: a and b follow from the memory of two splits.
    Assumes: stages of one chunk; only those with more than one layer can give one.
    """
    inputs, recipe = asked.step, asked.recipe
    stages, layers = int(inputs.plan.pipeline), int(inputs.model.layers)
    if stages == 1 or inputs.plan.interleave != 1.0 or layers < 2 * stages:
        return ()
    model, chunks = inputs.model, int(inputs.plan.pipeline * inputs.plan.interleave)
    every, prediction = float(model.layers), float(model.mtp_layers)
    own = chunk_split(every, prediction, chunks, recipe.layer_division)
    device = _device(asked, own)
    less = _device(asked, tuple(max(number - 1, 0) for number in own))
    each = np.maximum(device - less, 1.0)
    most = np.floor(np.array(own, float) + (float(asked.capacity) - device) / each)
    split = evenly(most, layers)
    fits = split and split != own and _device(asked, split).max() <= asked.capacity
    return split if fits else ()


def evenly(most: np.ndarray, layers: int) -> Split:
    """Return a split of layers as even as the most that each stage holds allows, or ().

    >>> evenly(np.array([1.0, 3.0, 9.0]), 9)
    (1, 3, 5)
    >>> evenly(np.array([9.0, 9.0, 9.0]), 8)
    (3, 3, 2)
    """
    if most.min() < 1 or most.sum() < layers:
        return ()
    level = next(level for level in range(1, layers + 1) if np.minimum(most, level).sum() >= layers)
    split = np.minimum(most, level).astype(int)
    over = int(split.sum()) - layers
    order = np.roll(np.arange(len(split)), 1)  # the last stage has the head, the first hold most
    for stage in [place for place in order if split[place] == level][:over]:
        split[stage] -= 1
    return tuple(int(number) for number in split)


def split_words(split: Sequence[int]) -> str:
    """Return a split as it is typed, with stages alike that follow each other counted.

    >>> split_words((7, 8, 8, 8, 7))
    '7,3x8,7'
    """
    runs = equal_runs(split)
    return ",".join(f"{count}x{layers}" if count > 1 else f"{layers}" for layers, count in runs)


def _device(asked: Question, split: Split) -> np.ndarray:
    recipe = dataclasses.replace(asked.recipe, layer_division=split)
    return np.asarray(memory_by_stage(asked.step, recipe).device)
