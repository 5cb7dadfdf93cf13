"""The plans of one machine: which fit, which are best, and which are as good as a value.

Where the estimator bounds its objective from below, plans whose bound is above what others reach
are passed over. Plans are a product as the estimator lists them, in the order of their fields, and
are neither sorted nor written out: a position stands for a plan. What is evaluated once is kept for
the next question about the same machine.
"""

import dataclasses
import functools
import json
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
import xarray as xr

from jaxroof.engine.grid.dataset import dataset, field_metadata, provenance
from jaxroof.engine.grid.dependencies import bound_reads
from jaxroof.engine.grid.evaluate import evaluate_points
from jaxroof.engine.search.bounded import SLACK, is_bounded
from jaxroof.engine.search.candidates import (
    InputsKey,
    PreparedPlans,
    SortedPlans,
    needed_plans,
    read_paths,
    with_plans,
)
from jaxroof.engine.search.cells import frontier_of, misses
from jaxroof.engine.search.constraints import Constraint
from jaxroof.engine.search.direct import in_pieces, objectives_of
from jaxroof.engine.search.plan_text import parse_plan
from jaxroof.engine.search.problem import SearchProblem
from jaxroof.errors import InputError, brief, refusal
from jaxroof.estimator import FAR, TIE, Candidates
from jaxroof.plan_lists import distinct_rows
from jaxroof.structure import structure
from jaxroof.units import size

LEAST_PLANS = 1 << 15  # fewer are evaluated sooner than a bound is traced
FEW = 256  # rows of the least bounds whose plans are evaluated first
STEPS = 1 << 13  # plans of a staircase that are evaluated sooner than passed over
ROUNDS = 16  # limit on rounds of known plans of a staircase
# for estimators without a result ``feasible``
FEASIBLE = {"feasible": {"unit": "1", "doc": "The plan fits the limit"}}


class NoSuchPlan(InputError):
    """No legal plan has the fields of the user's; ``why`` says it without the name of the input."""

    def __init__(self, where: str, why: str, near: str) -> None:
        super().__init__(str(refusal(where, f"{why}{near}")))
        self.why = why


class OwnPlan(NamedTuple):
    """A plan of the user's among the legal ones."""

    given: Mapping[str, int]  # its fields
    some: np.ndarray  # positions of the plans that have them, the leanest first
    place: int  # of the best of these that fits, of the leanest if none does


@dataclasses.dataclass(frozen=True, eq=False)
class OneMachine:
    """The legal plans of a problem without axes, and what each needs."""

    question: SearchProblem
    plans: Candidates
    need: np.ndarray

    @property
    def refused(self) -> Mapping[str, int]:
        """Return how many plans each rule refused."""
        return self.plans.refused

    @functools.cached_property
    def limit(self) -> float:
        """Return what a plan may need."""
        return limit_of(self.question)

    def columns(self, names: Sequence[str]) -> dict[str, np.ndarray]:
        """Return some results of every plan, evaluated once."""
        if new := [name for name in names if name not in self._columns]:
            find = functools.partial(self._objectives, names=new)
            every = in_pieces(find, np.arange(self.plans.size), len(new))
            self._columns.update(zip(new, np.ascontiguousarray(every.T), strict=True))
        return {name: self._columns[name] for name in names}

    @property
    def signed(self) -> np.ndarray:
        """Return the objective of every plan, whatever its limits: less is better."""
        name = self.question.objective
        return self.question.sign * self.columns([name])[name]

    @functools.cached_property
    def _columns(self) -> dict[str, np.ndarray]:
        return {self.question.estimator.need: self.need}

    @functools.cached_property
    def limited(self) -> dict[str, np.ndarray]:
        """Return the results of every plan that have limits."""
        if len(names := [*self.bounds]) > 1:
            self.columns([self.question.objective, *names])  # evaluated together
        return self.columns(names)

    @functools.cached_property
    def bounds(self) -> dict[str, float]:
        """Return the bound of each limit, by its result."""
        others = self.question.estimator.limits[1:]
        further = {other.result: float(other.of(self.question.inputs)) for other in others}
        return {self.question.estimator.need: self.limit, **further}

    @functools.cached_property
    def over(self) -> dict[str, np.ndarray]:
        """Return by how much each plan exceeds each limit: result -> excess."""
        return {name: result - self.bounds[name] for name, result in self.limited.items()}

    @functools.cached_property
    def held(self) -> np.ndarray:
        """Return which plans are within every limit."""
        return np.all([more <= 0.0 for more in self.over.values()], axis=0)

    @functools.cached_property
    def fitting(self) -> np.ndarray:
        """Return the positions of the plans that fit: those within every limit."""
        return np.flatnonzero(self.held)

    def at(
        self, positions: np.ndarray, fields: Collection[str] | None = None
    ) -> dict[str, np.ndarray]:
        """Return fields, by default all, of some plans."""
        return self.plans.at(positions, fields)

    def having(self, rules: Iterable[Constraint]) -> np.ndarray:
        """Return the positions of the plans that satisfy constraints, the leanest first."""
        some = self.plans.positions(rules)
        return some[np.argsort(self.need[some], kind="stable")]

    def leanest(self, count: int) -> np.ndarray:
        """Return the positions of the plans that need least, the leanest first.

        Those that fit come before the others.
        """
        found = np.empty(0, np.int64)
        for some in (self.fitting, np.flatnonzero(~self.held)):
            need, last = self.need[some], min(count - len(found), len(some)) - 1
            if last >= 0:
                some = some[need <= np.partition(need, last)[last]]
                order = some[np.argsort(self.need[some], kind="stable")]
                found = np.append(found, order[: last + 1])
        return found

    def by_need(self, positions: np.ndarray) -> PreparedPlans:
        """Return some plans written out, by increasing need."""
        order = positions[np.argsort(self.need[positions], kind="stable")]
        kinds = functools.partial(self.question.estimator.kinds, self.question.inputs)
        some = SortedPlans(self.at(order), self.need[order], kinds)
        return PreparedPlans([some], [self.refused], some.plans)

    def distinct(self, positions: np.ndarray) -> np.ndarray:
        """Return positions without those of plans that differ from an earlier one only in name.

        They may differ in placement, if the search lists placements.
        """
        if not len(positions):
            return positions
        question, plans = self.question, self.at(positions)
        kinds = question.estimator.kinds(question.inputs, plans, placed=question.placements)
        return positions[distinct_rows([*kinds.values()])[0]]

    def best(self, top: int, among: np.ndarray | None = None) -> tuple[np.ndarray, np.ndarray]:
        """Return the positions of the best distinct plans, best first, and their values.

        A value is what is minimised. Of a tie the plan that needs less wins, then the smaller.
        Arguments: ``among`` are positions of plans; by default all that fit.
        """
        some = self.fitting if among is None else among
        bounds, number = self._bounds
        row = number[some]
        there = np.zeros(len(bounds), bool)
        there[row] = True
        least = bounds[there]
        if len(least) > max(FEW, 4 * top):
            enough = np.partition(least, max(FEW, 4 * top))[max(FEW, 4 * top)]
            few = some[(bounds <= enough)[row]]
            order = self.distinct(self.ranked(few))
            if len(order) >= top:
                last = float(self.values(order[top - 1 : top])[0])
                some, _ = self.within(last + SLACK * abs(last), among)
        order = self.distinct(self.ranked(some))[:top]
        values = self.values(order)
        return order[values < FAR], values[values < FAR]

    def within(self, most: float, among: np.ndarray | None = None) -> tuple[np.ndarray, np.ndarray]:
        """Return the positions and the values of the plans with at most such a value."""
        some = self.fitting if among is None else among
        bounds, number = self._bounds
        some = some[(bounds <= most)[number[some]]]
        values = self.values(some)
        return some[values <= most], values[values <= most]

    def alike(self, best: Any) -> np.ndarray:
        """Return the positions of the plans that are too close to the best to tell apart.

        Arguments: the results of the best plan.
        """
        close = self.question.estimator.close
        value = self.question.sign * float(best[self.question.objective])
        share = TIE if close is None else close(best)
        return self.distinct(self.within(value + share * abs(value))[0])

    def beyond(self) -> dict[str, tuple[int, float]]:
        """Return how many plans each limit excludes, and by how much the nearest plan misses it.

        The nearest is one of those within the other limits; of all plans, where there are none.
        """
        bounds = {name: np.array([bound]) for name, bound in self.bounds.items()}
        found = misses(self.limited, bounds)
        return {name: (int(count[0]), float(by[0])) for name, (count, by) in found.items()}

    @property
    def why_none(self) -> str:
        """Return in words how several limits keep every plan out; empty if there is one limit."""
        about, said = field_metadata(self.question.report), []
        for name, (count, missing) in self.beyond().items() if len(self.over) > 1 else ():
            plans = "1 legal plan" if count == 1 else f"{count:,} legal plans"
            near = f", the nearest misses it by {size(missing, about[name]['unit'])}"
            words = about[name].get("words") or name.replace("_", " ")
            said += [f"{words} excludes {plans}{near if missing else ''}"] * (count > 0)
        return "; ".join(said)

    def values(self, positions: np.ndarray) -> np.ndarray:
        """Return what is minimised, of some plans."""
        known = self._known
        new = positions[known[positions] == 0.0]
        known[new] = self._evaluated(new)
        found: np.ndarray = known[positions]
        return found

    @functools.cached_property
    def _known(self) -> np.ndarray:
        """Return an array for the values of all plans, 0 where not evaluated."""
        others = [more for name, more in self.over.items() if name != self.question.estimator.need]
        if not others:
            return np.zeros(self.plans.size)
        return np.where(np.all([more <= 0.0 for more in others], axis=0), self.signed, FAR)

    @property
    def evaluated(self) -> int:
        """Return how many plans were evaluated."""
        return int(np.count_nonzero(self._known))

    def ranked(self, positions: np.ndarray) -> np.ndarray:
        """Return some plans by value; of a tie the plan that needs less, then the smaller."""
        return positions[ranked(self.values(positions), self.need[positions], positions)]

    def staircase(self) -> np.ndarray:
        """Return the positions of the plans that are best at some limit of the need, leanest first.

        A step is better than every plan that needs less. A plan whose bound is above what a known
        plan that needs less reaches is therefore no step. Known plans are first those where the
        running minimum of the bounds falls, then those of the lowest bounds against what is known.
        """
        order = np.argsort(self.need, kind="stable")
        if len(order) < LEAST_PLANS or not is_bounded(self.question):
            order = order[self.values(order) < FAR]
            return order[frontier_of(self.need[order], self.values(order))]
        bounds, number = self._bounds
        bound, value = bounds[number[order]], np.full(len(order), np.inf)
        lowest = np.minimum.accumulate(bound)
        known = np.flatnonzero(lowest < np.concatenate(([np.inf], lowest[:-1])))
        for _ in range(ROUNDS):
            value[known] = self.values(order[known])
            reached = np.minimum.accumulate(value)
            left = np.flatnonzero((bound <= reached * (1.0 + SLACK)) & (bound < np.inf))
            new = left[np.isinf(value[left])]
            if len(new) <= STEPS:
                break
            known = new[np.argpartition(bound[new] / reached[new], STEPS)[:STEPS]]
        left = order[left][self.values(order[left]) < FAR]
        return left[frontier_of(self.need[left], self.values(left))]

    def frontier(self, against: str) -> np.ndarray:
        """Return the positions of the plans that are best at some bound of a result, that rising.

        They are within every limit on other results. Of a tie the plan that needs less wins.
        """
        question, aim = self.question, self.question.objective
        higher = field_metadata(question.report)[against].get("better") == "higher"
        swept, order = self.columns([aim, against])[against], np.argsort(self.need, kind="stable")
        held = np.all(
            [np.ones(len(order)), *(o <= 0.0 for n, o in self.over.items() if n != against)], 0
        )
        return frontier_of(-swept if higher else swept, np.where(held, self.signed, FAR), order)

    def reports(self, positions: np.ndarray) -> xr.Dataset:
        """Return some of the plans with all their results, as a Dataset over ``plan``."""
        return reports(self.question, self.at(positions), self.refused)

    def own(self, text: str, given: Mapping[str, int], where: str = "mine") -> OwnPlan:
        """Return the place of the user's plan, as it was typed and by its fields.

        A field that it leaves open has the usual value of the estimator, where a plan has that.
        Raises: NoSuchPlan that says what no legal plan has, and which are near.
        """
        some = self.having(Constraint(field, "=", value) for field, value in given.items())
        if not len(some):
            raise self._no_such_plan(text, given, where)
        for field, usual in self.question.estimator.usual.items():
            kept = some[self.at(some, (field,))[field] == usual]
            some = kept if len(kept) and field not in given else some
        best, _ = self.best(1, some[self.held[some]])
        if not len(best):
            best = self.ranked(some[self.need[some] <= self.need[some[0]]])
        return OwnPlan(given, some, int(best[0]))

    def plan(self, place: int) -> dict[str, int]:
        """Return the fields of one plan."""
        return {field: int(value[0]) for field, value in self.at(np.array([place])).items()}

    def filled(self, own: OwnPlan, place: int) -> dict[str, int]:
        """Return the fields that the user's plan left open, where plans differ, as one has them."""
        chosen = self.plan(place)
        return {
            field: chosen[field]
            for field, column in self.at(own.some).items()
            if field not in own.given and np.any(column != column[0])
        }

    def _no_such_plan(self, text: str, given: Mapping[str, int], where: str) -> NoSuchPlan:
        """Return why no legal plan has the fields of the user's, and which are the nearest."""
        question, short = self.question, self.question.estimator.shortest
        found = []
        for field, value in given.items():
            others = [Constraint(f, "=", v) for f, v in given.items() if f != field]
            left = self.plans.having(others)
            values = np.unique({**left.plans, **left.product}[field]) if left.size else np.empty(0)
            near = (*values[values < value][-1:], *values[values > value][:1])
            found += [f"{short[field]}={value:.0f}" for value in near]
        alone = "" if len(given) == 1 else " with the rest of it"
        expected = f"; expected {' or '.join(found)}{alone}" if found else ""
        hook = question.estimator.why_not
        if hook is not None and (why := hook(question.inputs, question.recipe, given)):
            return NoSuchPlan(where, why, expected)
        columns = {**self.plans.plans, **self.plans.product}
        for field, value in given.items():
            known = np.unique(columns[field])
            if len(known) == 1 and known[0] != value and not self.refused.get("where"):
                only = f"{short[field]}={known[0]:.0f}"
                said = f"{short[field]}={value}: plans of a search have {only} alone"
                return NoSuchPlan(where, said, "; expected that, or to evaluate the plan by itself")
        ruled = " that --where leaves" if self.refused.get("where") else ""
        why = f"{brief(text)}: none of the {self.plans.size:,} legal plans{ruled} has these fields"
        return NoSuchPlan(where, f"{why}{expected}", "")

    def _evaluated(self, positions: np.ndarray, bound: bool = False) -> np.ndarray:
        """Return what is minimised, or its lower bound, of some plans."""
        return in_pieces(functools.partial(self._objectives, bound=bound), positions, 1)

    @functools.cached_property
    def _objectives(self) -> Callable[..., np.ndarray]:
        return objectives_of(self.question, self.plans, self.question.inputs)

    @functools.cached_property
    def _bounds(self) -> tuple[np.ndarray, np.ndarray]:
        """Return lower bounds of rows of plans, and the row of each plan."""
        question, size = self.question, self.plans.size
        if len(self.fitting) < LEAST_PLANS or not is_bounded(question):
            return np.full(1, -np.inf), np.zeros(size, np.int32)
        fields = bound_reads(question.estimator, question.recipe, structure(question.inputs)).fields
        rows = self.plans.rows_of(fields)
        return self._evaluated(rows.first, bound=True), rows.every()


def one_machine(question: SearchProblem) -> OneMachine:
    """Return the plans of a problem without axes."""
    estimator, inputs, recipe = question.estimator, question.inputs, question.recipe
    asked = InputsKey.of(inputs, read_paths(estimator, recipe, inputs))
    found = needed_plans(estimator, recipe, question.where, asked)
    return OneMachine(question, found.plans, found.need)


def ranked(value: np.ndarray, need: np.ndarray, place: np.ndarray) -> np.ndarray:
    """Return the order of values, the least first; of a tie the least need, then the first place.

    >>> ranked(np.array([2.0, 1.0, 1.0 + 1e-15]), np.array([0.0, 5.0, 4.0]), np.arange(3))
    array([2, 1, 0])
    """
    order = np.argsort(value, kind="stable")
    rising = value[order]
    tie = np.cumsum(np.diff(rising, prepend=rising[:1]) > TIE * np.abs(rising))
    return order[np.lexsort((place[order], need[order], tie))]


def reports(
    question: SearchProblem, plans: Mapping[str, np.ndarray], refused: Mapping[str, int]
) -> xr.Dataset:
    """Return plans with all their results, ``feasible`` among them, as a Dataset over ``plan``."""
    estimator, inputs = question.estimator, question.inputs
    found = evaluate_points(estimator, question.recipe, with_plans(estimator, inputs, plans))
    if "feasible" not in found:
        count = len(next(iter(plans.values())))
        need = found[estimator.need] if estimator.need else np.zeros(count)
        found["feasible"] = (need <= limit_of(question)) & estimator.within(inputs, found)
    columns = {**{field: column.astype(np.int64) for field, column in plans.items()}, **found}
    return dataset(
        {name: (("plan",), values) for name, values in columns.items()},
        (),
        inputs,
        {**FEASIBLE, **field_metadata(estimator.plan, question.report)},
        provenance(
            estimator,
            inputs,
            question.recipe,
            question="legal plans",
            where=[str(rule) for rule in question.where],
            refused=dict(refused),
            reasons=dict(estimator.reasons(question.recipe)) if estimator.reasons else {},
        ),
    )


def limit_of(question: SearchProblem) -> float:
    """Return what a plan may need."""
    limit = question.estimator.limit
    return np.inf if limit is None else float(limit(question.inputs))


Whole = Mapping[str, tuple[Any, str, str]]  # value, unit, sentence of what holds for all plans


def standing(machine: OneMachine, best: xr.Dataset | None, own: str | None = None) -> Whole:
    """Return how many plans are too close to the best to tell apart, and the place of the user's.

    Arguments: ``best`` is the best plan; ``own`` are fields of a plan of the user's.
    """
    found: dict[str, tuple[Any, str, str]] = {}
    if best is not None and bool(best["feasible"]):
        said = "Plans too close to the best for the model to tell apart"
        found["plans_alike"] = len(machine.alike(best)), "1", said
    return found if own is None else {**found, **place_of(machine, own)}


def place_of(machine: OneMachine, own: str) -> Whole:
    """Return the best plan that fits with the fields of the user's, and its place among all.

    If none with its fields fits, it is the leanest. Raises: InputError for fields that
    are not those of a plan, or that no legal plan has.
    """
    aim, found = machine.question.objective, own_of(machine, own)
    report = machine.reports(np.array([found.place])).isel(plan=0)
    value, about = float(report[aim]), report[aim].attrs
    unit = about["units"]
    low, high = f"{aim}_low", f"{aim}_high"
    ends = {"own_low": low, "own_high": high} if low in report else {}
    parts = [n for n in report if str(report[n].attrs.get("part_of")) == aim]
    better, _ = machine.within(machine.question.sign * value - TIE * abs(value))
    return {
        "own": (value, unit, f"{about['long_name']}, of the best plan with the fields of yours"),
        **{n: (float(report[e]), unit, report[e].attrs["long_name"]) for n, e in ends.items()},
        "own_need": (float(machine.need[found.place]), "1", "What it needs"),
        "own_place": (1 + len(machine.distinct(better)), "1", "Its place among plans that fit"),
        "own_parts": (json.dumps({n: float(report[n]) for n in parts}), unit, "The parts of it"),
        **missed_of(machine, found.place),
        **fields_of(machine, found.place),
        **filled_of(machine, found, found.place),
    }


def missed_of(machine: OneMachine, place: int) -> Whole:
    """Return by how much the user's plan misses the limits that it misses, as JSON, if any."""
    missed = {name: float(o[place]) for name, o in machine.over.items() if o[place] > 0.0}
    return {"own_missed": (json.dumps(missed), "1", "The limits it misses")} if missed else {}


def own_of(machine: OneMachine, own: str) -> OwnPlan:
    """Return the plan of the user's, from its fields as they are typed."""
    estimator = machine.question.estimator
    assert estimator.plan is not None
    return machine.own(own, parse_plan("mine", own, estimator.plan, estimator.short_names))


def fields_of(machine: OneMachine, place: int, name: str = "own_plan") -> Whole:
    """Return the fields of one plan, as JSON under a name."""
    return {name: (json.dumps(machine.plan(place)), "1", "Its fields")}


def filled_of(machine: OneMachine, own: OwnPlan, place: int) -> Whole:
    """Return the fields that the user's plan left open, as one plan has them."""
    return {
        "own_filled": (json.dumps(machine.filled(own, place)), "1", "Those that were left open")
    }


def as_variables(whole: Whole) -> dict[str, xr.Variable]:
    """Return what holds for all plans as variables without dimensions."""
    return {
        name: xr.Variable((), value, {"units": unit, "long_name": text})
        for name, (value, unit, text) in whole.items()
    }
