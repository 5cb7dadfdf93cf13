"""The form of the question: which controls there are, and what they show."""

import dataclasses
import enum
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from jaxroof import catalog
from jaxroof.app.changes import PATHS, assumed, numbers_of, systems
from jaxroof.app.fields import MAIN, MARGINS, TOKENS, USABLE, Number, shown, sizes, words_of
from jaxroof.app.plans import ASSUMED
from jaxroof.app.question import asked
from jaxroof.app.state import (
    CHOICE,
    MODELS,
    OWN,
    PRECISIONS,
    SCHEDULES,
    State,
    Upload,
)
from jaxroof.app.tabs.machine_map import fields_for_map
from jaxroof.estimators.training.recipe import Recipe
from jaxroof.estimators.training.step import training
from jaxroof.settings import kind_of_choice

Field = dict[str, Any]  # one control, as the browser's side reads it
Group = dict[str, Any]
EXCHANGE = "context_exchange"  # the choice that stands beside the rules on plans
OF_A_MODEL = {field.name for field in dataclasses.fields(Recipe)}


def question_groups(state: State, more: str) -> list[Group]:
    """Return the controls of the question, in groups; ``more`` is a number that is chosen."""
    numbers = numbers_of(state)
    return [
        _group("model", "What to train", _model_fields(state, numbers)),
        _group("system", "On what", _system_fields(state, numbers)),
        _group("plan", "Rules and my plan", _plan_fields()),
        _group("more", "Every other number", _more_fields(state, numbers, more), closed=True),
        _group("choices", "Choices of the software", _choice_fields(), closed=True),
    ]


def _group(name: str, title: str, fields: Iterable[Field], closed: bool = False) -> Group:
    return {"name": name, "title": title, "fields": list(fields), "open": not closed}


def select(
    name: str, label: str, options: Iterable[str | tuple[str, str]], help: str = ""
) -> Field:
    """Return a control that chooses one of some values; a pair is a value and its words."""
    pairs = [[one, one] if isinstance(one, str) else list(one) for one in options]
    return {"kind": "select", "name": name, "label": label, "options": pairs, "help": help}


def _text(name: str, label: str, placeholder: str, help: str) -> Field:
    said = {"label": label, "placeholder": placeholder, "help": help}
    return {"kind": "text", "name": name, **said}


def _range(name: str, label: str, texts: Sequence[str], help: str) -> Field:
    return {"kind": "range", "name": name, "label": label, "texts": list(texts), "help": help}


def _slider(number: Number) -> Field:
    label = number.words[0].upper() + number.words[1:]
    texts = [shown(value, number.unit) for value in number.stops]
    return _range(number.path, label, texts, number.about)


def _size_slider(name: str, label: str, help: str) -> Field:
    return _range(name, label, [f"{value:,.0f}" for value in sizes(PATHS[name])], help)


def _model_fields(state: State, numbers: Mapping[str, Number]) -> list[Field]:
    names: list[str | tuple[str, str]] = [*catalog.names(MODELS)]
    if state.own_model is not None:
        names.insert(0, _own(state.own_model))
    return [
        select("model", "Model", names),
        _drop("own_model", "config.json or .toml", ".json,.toml"),
        _size_slider("batch", "Batch", "Sequences of one optimizer step."),
        _slider(numbers["model.sequence"]),
        _slider(numbers[TOKENS]),
        select("precision", "Number format", PRECISIONS),
    ]


def _system_fields(state: State, numbers: Mapping[str, Number]) -> list[Field]:
    names: list[str | tuple[str, str]] = [*systems()]
    if state.own_system is not None:
        names.insert(0, _own(state.own_system))
    return [
        select("system", "System", names, _title(state)),
        _drop("own_system", ".toml", ".toml"),
        _size_slider("gpus", "GPUs", "Accelerators to split over."),
        *(_slider(numbers[path]) for path in MAIN if path in numbers),
        {"kind": "button", "name": "reset", "label": "Back to the catalogue's numbers"},
    ]


def _own(own: Upload) -> tuple[str, str]:
    """Return the option of a file that was dropped in."""
    return f"file:{own.name}", f"{own.name} (my file)"


def _drop(name: str, kinds: str, accept: str) -> Field:
    """Return a control that takes a file."""
    label = f"Or drop in a file of my own ({kinds})"
    return {"kind": "file", "name": name, "label": label, "accept": accept}


def _title(state: State) -> str:
    """Return what a system is, and whose numbers it has."""
    if state.own_system is not None:
        return "Numbers: those of the file."
    entry = catalog.describe("systems", state.system)
    return f"{entry['title']}. Numbers: {entry['source']}."


def _plan_fields() -> list[Field]:
    free = [_share(one) for one in MARGINS]
    said = "How context ranks see the whole sequence."
    return [
        _range("margin", "Memory to leave free", free, "Only plans that leave so much fit."),
        _choice(EXCHANGE, said),
        _text("where", "Rules", "tp<=8,zero<=1", "Only plans that keep these are compared."),
        _text(
            "mine",
            "My plan",
            "tp=8,pp=4",
            "Fields of it, or all; the tab Compare shows it beside the best.",
        ),
    ]


def _more_fields(state: State, numbers: Mapping[str, Number], more: str) -> list[Field]:
    main = {*MAIN, "model.sequence", TOKENS, USABLE}
    rest = {path: number for path, number in numbers.items() if path not in main}
    chosen = select("more", "Number", [("", "Choose one"), *((p, words_of(p)) for p in rest)])
    changed = [path for path, _ in state.changes if path in rest]
    return [chosen, *(_slider(rest[p]) for p in dict.fromkeys([more, *changed]) if p in rest)]


def _choice_fields() -> list[Field]:
    recipe = training.recipe
    names = [f.name for f in dataclasses.fields(recipe) if f.name not in {EXCHANGE, *OF_A_MODEL}]
    return [_choice(n) for n in names if issubclass(kind_of_choice(recipe, n), enum.Enum)]


def _choice(name: str, help: str = "") -> Field:
    """Return the control of a structural choice; without a usual one, each plan has its own."""
    recipe = training.recipe
    usual = getattr(getattr(recipe, name), "value", None)
    values = [m.value for m in kind_of_choice(recipe, name) if m.value != usual]
    options = [("", f"{usual} (usual)" if usual else "the faster one"), *values]
    return select(f"{CHOICE}{name}", name.replace("_", " ").capitalize(), options, help)


def question_values(state: State, more: str) -> dict[str, Any]:
    """Return what every control of the question shows."""
    plain = ("precision", "where", "mine")
    found: dict[str, Any] = {name: getattr(state, name) for name in plain}
    found["model"] = _own(state.own_model)[0] if state.own_model else state.model
    found["system"] = _own(state.own_system)[0] if state.own_system else state.system
    found["more"] = more
    changes, choices = dict(state.changes), dict(state.choices)
    for name, path in PATHS.items():
        found[name] = _value(getattr(state, name), "1", sizes(path))
    for path, number in numbers_of(state).items():
        value = changes.get(path, number.value)
        mark = "changed" if path in changes else ""
        silent = {"model.sequence": assumed(state), TOKENS: number.value == ASSUMED}
        if silent.get(path) and value == number.value:
            mark = "assumed"
        found[path] = _value(value, number.unit, number.stops, mark)
    free = 1.0 - changes.get(USABLE, numbers_of(state)[USABLE].value)
    mark = "changed" if USABLE in changes else ""
    found["margin"] = {**_value(free, "1", MARGINS, mark), "text": _share(free)}
    for name in (field.name for field in dataclasses.fields(training.recipe)):
        found[f"{CHOICE}{name}"] = choices.get(name, "")
    return found


def _value(value: float, unit: str, stops: Sequence[float], mark: str = "") -> dict[str, Any]:
    place = min(range(len(stops)), key=lambda i: abs(stops[i] - value))
    return {"index": place, "text": shown(value, unit), "mark": mark}


def _share(value: float) -> str:
    return f"{100.0 * value:.4g} %"


# ---- Controls inside a tab ----------------------------------------------------------------------


def map_groups(state: State) -> list[Group]:
    """Return the controls of the map."""
    options = list(fields_for_map(asked(state)).items())
    fields = [select("across", "Across", options), select("up", "Up", options)]
    return [_group("map", "Fields of the map", fields)]


def schedule_groups() -> list[Group]:
    """Return the controls of the timeline."""
    options: list[str | tuple[str, str]] = [(OWN, "the plan's own"), *SCHEDULES]
    return [_group("schedule", "Timeline", [select("schedule", "Schedule", options)])]


def compare_groups() -> list[Group]:
    """Return the controls of the comparison."""
    field = select("other", "Beside it", systems())
    return [_group("other", "Two machines", [field])]
