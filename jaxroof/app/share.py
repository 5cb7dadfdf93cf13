"""The question of a state as a command, as a sweep file and as Python."""

import dataclasses
import json
import shlex
from typing import Any

from jaxroof.app.question import asked, numbers, unchanged
from jaxroof.app.state import START, State
from jaxroof.units import parse, show

TOP = 5


def settings(state: State) -> dict[str, str]:
    """Return what the question changes, by path, with units; numbers are those of the state."""
    known = numbers(asked(dataclasses.replace(unchanged(state), where="", choices=())))
    units = {path: str(about["unit"]) for path, (_, about) in known.items()}
    found = {path: _exact(value, units.get(path, "1")) for path, value in state.changes}
    found |= dict(state.choices)
    if state.precision != START.precision:
        found["precision"] = state.precision
    return found


def _exact(value: float, unit: str) -> str:
    """Return a number with its unit where that keeps every digit, else the number."""
    spelled = show(value, unit)
    return spelled if parse(spelled, unit) == value else repr(value)


def command(state: State) -> str:
    """Return the command line that answers the question of a state.

    >>> command(START)
    'jaxroof search --model llama3-70b --system h100-nvs8 --gpus 256 --batch 1024'
    """
    words = ["jaxroof", "search"]
    words += ["--model", state.model_words, "--system", state.system_words]
    words += ["--gpus", str(state.gpus), "--batch", str(state.batch)]
    for path, value in settings(state).items():
        words += ["--set", f"{path}={value}"]
    words += ["--where", state.where] if state.where else []
    words += ["--mine", state.mine] if state.mine else []
    return shlex.join(words)


def sweep_file(state: State) -> str:
    """Return a sweep file of the question, over the two fields of the map.

    >>> print(sweep_file(START).splitlines()[1])
    model = "llama3-70b"
    """
    said = f"{state.model_words} on {state.gpus:,} x {state.system_words}"
    lines = [f"title = {_text(said)}"]
    lines += [f"model = {_text(state.model_words)}", f"system = {_text(state.system_words)}"]
    lines += [f"plan = {{ gpus = {state.gpus}, global_batch = {state.batch} }}"]
    changes = [f"{_text(path)} = {_text(value)}" for path, value in settings(state).items()]
    lines += [f"set = {{ {', '.join(changes)} }}"] if changes else []
    where = f", where = {_text(state.where)}" if state.where else ""
    lines += [f"search = {{ top = {TOP}{where} }}"]
    return "\n".join(lines) + "\n"


def python(state: State) -> str:
    """Return the question as a Python program.

    >>> print(python(START).splitlines()[0])
    import jaxroof as jr
    """
    given = {"model": state.model_words, "system": state.system_words, "gpus": state.gpus}
    more: dict[str, Any] = {**given, "global_batch": state.batch}
    if state.where:
        more["where"] = state.where
    more["top"] = TOP
    if changes := settings(state):
        more["settings"] = changes
    lines = [f"    {name}={value!r}," for name, value in more.items()]
    asks = ["import jaxroof as jr", "", "data = jr.search(", '    "training",', *lines]
    return "\n".join([*asks, ")", "print(data.step_time.values)", ""])


def _text(words: str) -> str:
    """Return a text as TOML writes it."""
    return json.dumps(words, ensure_ascii=False)
