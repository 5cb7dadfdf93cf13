"""The tab to take away: the question as a command, a sweep file and Python, and the data."""

import dataclasses
import io
import json
import pathlib
import shlex
import tempfile
from collections.abc import Callable, Iterable, Mapping
from typing import Any

import panel as pn

from jaxroof.app.figures import BUTTON
from jaxroof.app.html import code, paragraph, text
from jaxroof.app.question import (
    BESIDE,
    OF_TABS,
    WRITTEN,
    asked,
    is_operated,
    numbers,
    operation_of,
    shown,
    unchanged,
)
from jaxroof.app.state import START, State
from jaxroof.app.tabs import Shown, View
from jaxroof.io.formats import write
from jaxroof.units import parse, show

COPY = """
const text = holder.tags[0];
const done = () => { button.label = "Copied"; setTimeout(() => { button.label = label; }, 1500); };
if (navigator.clipboard) navigator.clipboard.writeText(text).then(done);
else {
  const area = document.createElement("textarea");
  area.value = text;
  document.body.append(area);
  area.select();
  document.execCommand("copy");
  area.remove();
  done();
}
"""
TOP = 5  # plans
FILES = (".nc", ".csv")
MINE = "My plan is in the command; a sweep file and this Python have no place for it."
OWN = "My files are not in these texts: keep them beside these under their names."


def settings(state: State) -> dict[str, str]:
    """Return what the question changes, by path, with units; numbers are those of the state."""
    known = numbers(asked(dataclasses.replace(unchanged(state), where="", choices=())))
    units = {path: str(about["unit"]) for path, (_, about) in known.items()}
    units |= {path: number.unit for path, number in OF_TABS.items()}
    given = {path: value for path, value in state.changes if not path.startswith(BESIDE)}
    given |= operation_of(state) if is_operated(state) else {}
    found = {path: exact(value, units.get(path, "1")) for path, value in given.items()}
    found |= dict(state.choices)
    named = {name: getattr(state, name) for name in ("precision", "dispatcher")}
    return found | {name: value for name, value in named.items() if value != getattr(START, name)}


def exact(value: float, unit: str) -> str:
    """Return a number with its unit where that keeps every digit, else the number."""
    spelled = shown(value, unit).replace(",", "") if unit in WRITTEN else show(value, unit)
    return spelled if parse(spelled, unit) == value else repr(value)


def command(state: State) -> str:
    """Return the command line that answers the question of a state.

    >>> command(START)
    'jaxroof search --model llama3-70b --system h100-nvs8 --gpus 256 --batch 1024'
    """
    named = {"model": state.model_words, "system": state.system_words, "gpus": state.gpus}
    named |= {"batch": state.batch, "where": state.where, "mine": state.mine}
    return command_line("search", named, settings(state))


def command_line(name: str, given: Mapping[str, Any], settings: Mapping[str, str]) -> str:
    """Return a command with what is given of its options, and with settings."""
    pairs = [(f"--{option}", str(value)) for option, value in given.items() if value]
    pairs += [("--set", f"{path}={value}") for path, value in settings.items()]
    return shlex.join(["jaxroof", name, *(word for pair in pairs for word in pair)])


def sweep_file(state: State) -> str:
    """Return a sweep file of the question.

    >>> print(sweep_file(START).splitlines()[1])
    model = "llama3-70b"
    """
    model, system = state.model_words, state.system_words
    changes = [f"{_text(path)} = {_text(value)}" for path, value in settings(state).items()]
    where = f", where = {_text(state.where)}" if state.where else ""
    lines = [
        f"title = {_text(f'{model} on {state.gpus:,} x {system}')}",
        f"model = {_text(model)}",
        f"system = {_text(system)}",
        f"plan = {{ gpus = {state.gpus}, global_batch = {state.batch} }}",
        *([f"set = {{ {', '.join(changes)} }}"] if changes else []),
        f"search = {{ top = {TOP}{where} }}",
    ]
    return "\n".join(lines) + "\n"


def python(state: State) -> str:
    """Return the question as a Python program.

    >>> print(python(START).splitlines()[0])
    import jaxroof as jr
    """
    given = {
        "model": state.model_words,
        "system": state.system_words,
        "gpus": state.gpus,
        "global_batch": state.batch,
        "where": state.where,
        "top": TOP,
        "settings": settings(state),
    }
    return program('search(\n    "training",', given, "data.step_time.values")


def program(call: str, given: Mapping[str, Any], shown: str) -> str:
    """Return a program that asks one question with what is given of it."""
    lines = "".join(f"    {name}={value!r},\n" for name, value in given.items() if value)
    return f"import jaxroof as jr\n\ndata = jr.{call}\n{lines})\nprint({shown})\n"


def _text(words: str) -> str:
    """Return a text as TOML writes it."""
    return json.dumps(words, ensure_ascii=False)


# ---- The tab ------------------------------------------------------------------------------------

Text = tuple[str, str, Callable[..., str]]  # its title, its name on a button, what writes it
TEXTS: tuple[Text, ...] = (
    ("As a command", "command", command),
    ("As a sweep file", "sweep file", sweep_file),
    ("As Python", "Python", python),
)


def share_view() -> View:
    """Return the tab with the question to copy and the data to download."""
    latest: dict[str, Any] = {}
    parts = [copied(title, name) for title, name, _ in TEXTS]
    said = text("<h3>The data</h3><p>The table of plans with all their results.</p>")
    files, note = pn.Row(*(_download(kind, latest) for kind in FILES), margin=0), text()
    download = pn.Column(said, files, sizing_mode="stretch_width", margin=0)
    body = pn.Column(note, *parts, download, sizing_mode="stretch_width")

    def show_question(state: State) -> None:
        words = "The address of this page holds the whole question: copy it to share it."
        notes = [OWN] * bool(state.own_model or state.own_system) + [MINE] * bool(state.mine)
        note.object = paragraph(words) + "".join(paragraph(one, "note") for one in notes)
        fill(parts, TEXTS, state)
        download.visible = False  # until there is an answer

    def show(shown: Shown, _: Any) -> None:
        latest["data"] = shown.data
        show_question(shown.state)
        download.visible = True

    return View(body, show, lambda _: None, unanswered=show_question)


def fill(parts: Iterable[pn.Column], texts: Iterable[Text], state: State) -> None:
    """Show the texts of a state, each with its button."""
    for (pane, _), (title, _, words) in zip(parts, texts, strict=True):
        written = words(state)
        pane.object, pane.tags = f"<h3>{title}</h3>{code(written)}", [written]


def copied(title: str, name: str) -> pn.Column:
    """Return a text with a button that copies it."""
    pane = text(f"<h3>{title}</h3>")
    button = pn.widgets.Button(name=f"Copy as {name}", stylesheets=[BUTTON], margin=(0, 3))
    button.js_on_click(args={"holder": pane, "button": button, "label": button.name}, code=COPY)
    return pn.Column(pane, button, sizing_mode="stretch_width", margin=0)


def _download(kind: str, latest: dict[str, Any]) -> pn.widgets.FileDownload:
    """Return a button that downloads the latest data in a format."""

    def content() -> io.BytesIO:
        with tempfile.TemporaryDirectory() as folder:
            path = pathlib.Path(folder) / f"plans{kind}"
            write(latest["data"], path)
            return io.BytesIO(path.read_bytes())

    look = {"label": f"Download {kind}", "stylesheets": [BUTTON], "margin": 3}
    return pn.widgets.FileDownload(callback=content, filename=f"plans{kind}", **look)
