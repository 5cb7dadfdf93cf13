"""What a person does on the page, as a change of the state: pure, and checked at this border."""

import dataclasses
import functools
from collections.abc import Callable, Mapping
from typing import Any

from jaxroof import catalog
from jaxroof.app.fields import (
    MARGINS,
    USABLE,
    Number,
    check_reach,
    of_machine,
    quantity,
    sizes,
    sliders,
)
from jaxroof.app.question import asked, unchanged
from jaxroof.app.state import (
    CHOICE,
    START,
    State,
    Upload,
    checked,
    upload,
    whole_number,
    with_change,
    with_choice,
)
from jaxroof.app.uploads import model_of
from jaxroof.catalog.needs import answers
from jaxroof.errors import InputError, refusal, shown
from jaxroof.estimators.training.step import training
from jaxroof.units import parse

SEQUENCE = 4096.0  # tokens, of a model's file that does not say
PATHS = {"gpus": "gpus", "batch": "global_batch"}  # of the state -> of the inputs
TEXTS = ("where", "mine", "system", "other", "across", "up", "schedule", "tab")


def numbers_of(state: State) -> Mapping[str, Number]:
    """Return the numbers that sliders move, as the catalogue has them.

    Raises: InputError for a state that cannot be asked.
    """
    return _numbers(dataclasses.replace(unchanged(state), gpus=1, batch=1, where=""))


@functools.lru_cache(maxsize=64)
def _numbers(state: State) -> Mapping[str, Number]:
    silent = assumed(state)
    return sliders(asked(with_change(state, "model.sequence", SEQUENCE) if silent else state))


@functools.lru_cache(maxsize=64)
def _silent(own: Upload) -> bool:
    return model_of(own)[0].sequence is None


def assumed(state: State) -> bool:
    """Return whether the tokens of a sequence are assumed: the model's file does not say them."""
    return state.own_model is not None and _silent(state.own_model)


def check_numbers(state: State) -> None:
    """Check how far the changed numbers of a state are from the catalogue's.

    Raises: InputError for one that is too far.
    """
    if state.changes:
        known = numbers_of(state)
        for path, value in state.changes:
            if path in known:
                check_reach(known[path], value)


def can_be_shown(state: State) -> State:
    """Return a state after checking that its form can be shown, whatever is typed in its texts.

    Raises: InputError for a model, a number or a choice that is none.
    """
    asked(dataclasses.replace(checked(state), where=""))
    check_numbers(state)
    return state


def systems() -> list[str]:
    """Return the systems that the page can be asked about."""
    return [name for name in catalog.names("systems") if training.name in answers(name)]


def applied(state: State, name: str, value: Any) -> State:
    """Return the state after a message of the page: the name of a control, and its new value.

    Raises: InputError for anything that is not a value of that control.

    >>> applied(START, "gpus", {"text": "2,048"}).gpus
    2048
    >>> applied(START, "system.nics", {"text": "2"}).changes
    (('system.nics', 2.0),)
    """
    if name in TEXTS and isinstance(value, str):
        return checked(HANDLERS.get(name, _replaced)(state, name, value))
    if name in HANDLERS and name not in TEXTS:
        return checked(HANDLERS[name](state, name, value))
    if name.startswith(CHOICE) and isinstance(value, str):
        return can_be_shown(with_choice(state, name.removeprefix(CHOICE), value or None))
    if name in PATHS and isinstance(value, Mapping):
        return checked(with_field(state, name, _size(name, value)))
    if "." in name and isinstance(value, Mapping):
        return checked(_moved(state, name, value))
    raise refusal("page", f"{shown(name)}: no such control")


def _replaced(state: State, name: str, value: Any) -> State:
    return with_field(state, name, value.strip())


def with_field(state: State, name: str, value: Any) -> State:
    """Return a state with one of its fields replaced."""
    fields: dict[str, Any] = {name: value}
    return dataclasses.replace(state, **fields)


def _size(name: str, value: Mapping[str, Any]) -> int:
    if "text" in value:
        return whole_number(name, str(value["text"]))
    return int(_stop(sizes(PATHS[name]), name, value))


def _moved(state: State, path: str, value: Mapping[str, Any]) -> State:
    known = numbers_of(state)
    if path not in known:
        raise refusal("page", f"{shown(path)}: no such number")
    number = known[path]
    if "text" in value:
        found = quantity(number, str(value["text"]))
    else:
        found = _stop(number.stops, path, value)
    return _with_number(state, number, found)


def _with_number(state: State, number: Number, value: float) -> State:
    check_reach(number, value)
    return with_change(state, number.path, None if value == number.value else value)


def _stop(stops: tuple[float, ...], name: str, value: Mapping[str, Any]) -> float:
    place = value.get("index")
    if not isinstance(place, int) or not 0 <= place < len(stops):
        raise refusal("page", f"{name}: no such stop of its slider, given {shown(place)}")
    return stops[place]


def _model(state: State, _: str, value: Any) -> State:
    if not isinstance(value, str) or value.startswith("file:"):
        return state
    kept = tuple(one for one in state.changes if not one[0].startswith("model."))
    return dataclasses.replace(state, model=value, own_model=None, changes=kept)


def _system(state: State, _: str, value: Any) -> State:
    if value.startswith("file:"):
        return state
    return _on(state, system=value, own_system=None)


def _on(state: State, **fields: Any) -> State:
    """Return a state on another system, whose numbers are its own."""
    kept = tuple(one for one in state.changes if not of_machine(one[0]))
    return dataclasses.replace(state, changes=kept, precision=START.precision, **fields)


def _own_model(state: State, _: str, value: Any) -> State:
    """Return a state with a model's file, after reading it; it may not say its sequence.

    Raises: InputError for a file that is too large, of another kind, or that cannot be read.
    """
    kept = tuple(one for one in state.changes if not one[0].startswith("model."))
    found = dataclasses.replace(state, own_model=_file(value), changes=kept)
    if assumed(found):
        found = with_change(found, "model.sequence", SEQUENCE)
    return found


def _own_system(state: State, _: str, value: Any) -> State:
    """Return a state with a system's file, after reading it.

    Raises: InputError for a file that is too large, of another kind, or that cannot be read.
    """
    return can_be_shown(_on(state, own_system=_file(value)))


def _file(value: Any) -> Upload:
    if not isinstance(value, Mapping) or not isinstance(value.get("file"), str):
        raise refusal("file", "not a file")
    if not isinstance(value.get("text"), str):
        raise refusal(value["file"][:80], "too large; expected a file of some kilobytes")
    return upload(value["file"], value["text"])


def _reset(state: State, *_: Any) -> State:
    return dataclasses.replace(state, changes=(), choices=())


def _precision(state: State, name: str, value: Any) -> State:
    return can_be_shown(with_field(state, name, str(value)))  # a chip may lack the format


def _margin(state: State, name: str, value: Any) -> State:
    """Return a state in which a share of the memory stays free."""
    words, number = "memory to leave free", numbers_of(state)[USABLE]
    if not isinstance(value, Mapping):
        raise refusal("page", f"{name}: no value of a slider")
    share = _stop(MARGINS, name, value) if "index" in value else 0.0
    if "text" in value:
        share = parse(str(value["text"]), "1", words)
    if not 0.0 <= share < 1.0:
        raise refusal(words, f"expected a share from 0 to 99 %, given {shown(share)}")
    return _with_number(state, number, 1.0 - share)


HANDLERS: dict[str, Callable[[State, str, Any], State]] = {
    "model": _model,
    "system": _system,
    "own_model": _own_model,
    "own_system": _own_system,
    "reset": _reset,
    "precision": _precision,
    "margin": _margin,
}


def at_place(state: State, across: tuple[str, float], up: tuple[str, float]) -> State:
    """Return the state at a place of the map: its two numbers become those of the question.

    Whole numbers are rounded. Raises: InputError as ``applied`` does.
    """
    for path, value in (across, up):
        name = next((short for short, full in PATHS.items() if full == path), None)
        if name is not None:
            state = with_field(state, name, max(1, round(value)))
        elif path in numbers_of(state):
            state = _with_number(state, numbers_of(state)[path], float(value))
        else:
            raise InputError(f"map: {shown(path)}: no such number")
    return checked(state)
