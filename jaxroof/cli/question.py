"""What options ask about: the plans of an estimator, or one of them."""

import contextlib
import dataclasses
import functools
import pathlib
from collections.abc import Collection, Mapping
from typing import Any

import numpy as np

from jaxroof.catalog.launch_options import is_launch, read_launch
from jaxroof.catalog.launch_options import settings_of as launch_plan
from jaxroof.catalog.lookup import system
from jaxroof.cli.options import FIELDS, settings_of
from jaxroof.engine.grid.question import ask
from jaxroof.engine.search.constraints import Constraint
from jaxroof.engine.search.plan_text import parse_plan, plan_items
from jaxroof.engine.search.problem import constraints_of
from jaxroof.errors import refusal, unknown
from jaxroof.estimator import Estimator
from jaxroof.estimators import names, on_system
from jaxroof.estimators.plugins import estimator_of
from jaxroof.estimators.published.legality import broken_words
from jaxroof.estimators.published.step import published
from jaxroof.estimators.training.named_settings import KINDS
from jaxroof.estimators.training.step import training
from jaxroof.estimators.whole_run.operation import Operation
from jaxroof.settings import known_paths


def searched(name: str) -> Estimator:
    """Return an estimator whose plans are searched: by name, or one's own as MODULE:NAME.

    Raises: InputError for another name, with the nearest.
    """
    found = named(name)
    if found.candidates is None:
        raise refusal("--estimator", f"{name}: has no plans; expected one that is searched")
    return found


def named(name: str, detail: str = "") -> Estimator:
    """Return an estimator by name, or one's own as MODULE:NAME, that has a ``detail``."""
    if ":" not in name and name not in names():
        raise unknown("--estimator", name, "estimator", [*names(), "MODULE:NAME of your own"])
    found = estimator_of(name, pathlib.Path.cwd(), trust=True)
    if detail and detail not in found.details():
        raise refusal("--estimator", f"{name}: has no {detail}; expected one that has")
    return found


def needs(name: str, field: str) -> bool:
    """Return whether a field of the inputs has to be given; unknown estimators are refused later.

    So it is of a record by name, and of what lists the plans. One's own may take another way.
    """
    if ":" in name or name not in names():
        return False
    of = named(name)
    return field in of.inputs.__dataclass_fields__ and (field in of.names or of.lists_anew(field))


def check_fields(of: Estimator, given: Mapping[str, Any]) -> None:
    """Check that the inputs have the field, or the short name, of every option that is given."""
    options = {field: option for option, field in FIELDS.items()}
    options |= {"sequence": "--sequence", "training_tokens": "--tokens"}
    known = {*known_paths(of.inputs), *of.shorthand}
    for field, value in given.items():
        if value is not None and field not in known:
            raise refusal(options[field], f"not of the estimator {of.name}; expected it left out")


def whole_run(of: Estimator, tokens: float | None) -> dict[str, Any]:
    """Return the settings that ask for a whole training of so many tokens."""
    if tokens is None:
        return {}
    run = {"operation": Operation()} if "operation" in known_paths(of.inputs) else {}
    return {"training_tokens": tokens, **run}


def machine(of: Estimator, name: str | None, number_format: str | None) -> Any:
    """Return a system by its name; with a number format, as one that has the peak of it."""
    if number_format is None or name is None:
        return name
    if of.expand is not None:  # it knows number formats by name
        raise refusal("--format", "of the study alone; expected --set precision=NAME")
    return system(name, number_format)


@dataclasses.dataclass(frozen=True, kw_only=True)
class PlansQuestion:
    """A question about the plans of some numbers of accelerators, as options ask it."""

    model_name: str | None
    system_name: str | None
    gpus: list[int] | int | None
    batch: int | None
    where: str
    sets: tuple[str, ...]
    estimator: str
    number_format: str | None
    split: str | None
    sequence: int | None
    margin: float | None = None
    tokens: float | None = None

    @functools.cached_property
    def of(self) -> Estimator:
        """Return the estimator that answers: on a torus of TPUs MaxText's."""
        return on_system(searched(self.estimator), self.system_name)

    @functools.cached_property
    def settings(self) -> dict[str, Any]:
        """Return the settings of every number of accelerators."""
        sizes = {"gpus": self.gpus, "sequence": self.sequence, "training_tokens": self.tokens}
        given = {"model": self.model_name, "system": self.system_name, "global_batch": self.batch}
        check_fields(self.of, {**given, **sizes})
        given |= {"system": machine(self.of, self.system_name, self.number_format)}
        chosen = settings_of(
            self.sets, sequence=self.sequence, margin=self.margin, split=self.split
        )
        chosen = {**whole_run(self.of, self.tokens), **chosen}
        for name in {*self.of.plan_fields, *self.of.short_names} & {*chosen}:
            raise refusal("--set", f"{name}: a field of the plan; constrain it with --where")
        return {**{name: value for name, value in given.items() if value is not None}, **chosen}

    @functools.cached_property
    def rules(self) -> tuple[Constraint, ...]:
        """Return the constraints on the plans."""
        return constraints_of(self.of, self.where)

    @property
    def words(self) -> str:
        """Return the model, the accelerators and the system in words, or what is asked."""
        if None in (self.model_name, self.system_name, self.gpus):
            return self.of.about.rstrip("?") or self.of.name
        sizes = self.gpus if isinstance(self.gpus, list) else [self.gpus]
        counts = ", ".join(f"{size:,}" for size in sizes)
        own = getattr(self.of.recipe, "split", None)
        split = f", {self.settings.get('split', own.value)}" if own is not None else ""
        return f"{self.model_name} on {counts} x {self.system_name}{split}"

    @property
    def title(self) -> str:
        """Return these words with the batch, or with what was set by a short name."""
        if self.batch is not None:
            return f"{self.words}, batch {self.batch:,}"
        given = [n for n in self.of.shorthand if n in self.settings and n not in FIELDS]
        return ", ".join([self.words, *(f"{name} {self.settings[name]}" for name in given)])

    @property
    def sized(self) -> dict[str, Any]:
        """Return what is asked of the engine, with the number of accelerators as an axis."""
        axes = {} if self.gpus is None else {"axes": {"gpus": self.gpus}}
        return {"where": self.rules, "settings": self.settings, **axes}


def launched(text: str, settings: Mapping[str, Any]) -> str:
    """Return the plan of launch options, or of a file of them, as it is typed; else the text.

    Raises: InputError for options that cannot be read, or that contradict what is asked.
    """
    path = pathlib.Path(text)
    with contextlib.suppress(OSError, ValueError):
        text = path.read_text(encoding="utf-8") if path.is_file() else text
    if not is_launch(text):
        if path.suffix in (".sh", ".toml", ".json", ".yaml", ".txt") or path.is_dir():
            raise refusal(
                f"--mine: {text}", "no file of launch options; expected such, or tp=8,pp=4"
            )
        return text
    _, inputs, _, _ = ask(training, settings=settings)
    given = {"global_batch": inputs.global_batch, "sequence": inputs.model.sequence}
    found = read_launch("--mine", text)
    plan = launch_plan("--mine", found, float(inputs.model.layers), given)
    return ",".join(f"{field}={value}" for field, value in plan.items())


def plan_settings(
    of: Estimator, text: str, settings: Mapping[str, Any]
) -> tuple[dict[str, Any], dict[str, int]]:
    """Return settings with the plan of ``--plan``, and the fields of it that are given.

    Of the study, missing degrees are 1 and missing panels the fewest allowed; what is placed
    nowhere is placed best. A batch that any schedule of the plan can run stands for a missing one.
    Raises: InputError for a text that is not a plan, and for the first rule that it breaks.
    """
    assert of.plan is not None
    given = parse_plan("--plan", text, of.plan, of.short_names)
    whole = dict(given)
    missing = {"global_batch": _batch(given)} if "global_batch" in known_paths(of.inputs) else {}
    if of is published:
        placed = any(field in given for field in of.placement)
        left = ("panels",) if placed else (*of.placement, "panels")
        fields = [field for field in of.plan_fields if field not in left]
        whole = {**dict.fromkeys(fields, 1), **given}
        _, inputs, recipe, _ = ask(of, settings={**missing, **settings, **_paths(whole)})
        if str(recipe.split.value) == "summa":
            whole.setdefault("panels", max(whole["tensor"], whole["context"]))
        if broken := broken_words(whole, inputs, recipe, placed=False):
            raise refusal("--plan", broken)
    return {**missing, **settings, **_paths(whole)}, given


def _paths(plan: Mapping[str, int]) -> dict[str, int]:
    return {f"plan.{field}": value for field, value in plan.items()}


def _batch(given: Mapping[str, int]) -> float:
    """Return a batch that any schedule of the plan can run; a layer does not depend on it."""
    return 2.0 * float(np.prod([given.get(f, 1) for f in ("data", "microbatch", "pipeline")]))


def of_time_alone(settings: Mapping[str, Any]) -> str:
    """Return which names among settings memory does not hang on; empty if there is none."""
    names = [name for name in KINDS if name in settings]
    return f"Memory does not hang on {' or '.join(names)}: not counted here." if names else ""


def left_open(text: str, held: Mapping[str, Any], named: Collection[str] = ()) -> str:
    """Return which fields a plan leaves open, with the values that they have; empty if none.

    Arguments: ``held`` has the values of fields that count here, ``named`` are set otherwise.
    """
    given = {training.short_names.get(name, name) for name in plan_items("--plan", text)}
    some = {name: value for name, value in held.items() if name not in {*given, *named}}
    said = " ".join(f"{training.shortest[name]} {float(v):g}" for name, v in some.items())
    fill = "search --mine fills them in with the fastest"
    return f"Left open in --plan, so as usual: {said}; {fill}." if said else ""
