"""The form of the question: what each control shows, and the state after a message of it."""

import dataclasses
import enum
import functools
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, NamedTuple

from jaxroof import catalog
from jaxroof.app.plans import ASSUMED
from jaxroof.app.question import (
    BESIDE,
    IMBALANCE,
    MAIN,
    MAPPED,
    MARGINS,
    MOVED,
    OF_TABS,
    PRICE,
    RENT,
    SEQUENCE,
    SERVED,
    TOKENS,
    USABLE,
    Number,
    asked,
    model_of,
    models,
    number_of,
    numbers,
    of_machine,
    operation_of,
    sizes,
    systems,
    texts,
    unchanged,
    words_of,
)
from jaxroof.app.state import (
    CHOICE,
    CHOSEN,
    FIELDS,
    FILES,
    PATHS,
    SERVERS,
    START,
    TABS,
    UPLOADS,
    WHOLE,
    State,
    Upload,
    checked,
    upload,
    with_change,
    with_choice,
)
from jaxroof.errors import refusal, shown
from jaxroof.estimators.training.recipe import Recipe
from jaxroof.estimators.training.step import training
from jaxroof.settings import kind_of_choice

Field = dict[str, Any]  # one control, as the browser's side reads it
Option = str | tuple[str, ...]  # a value, or a value, its words and perhaps its group
ASSUMED_SEQUENCE = 4096.0  # tokens, of a model's file that does not say
EXPERTS = "model.experts"
EXCHANGE = "context_exchange"  # the choice that stands beside the rules on plans
OF_A_MODEL = {field.name for field in dataclasses.fields(Recipe)}
SAID = {"": "usual", "aggregated": "one server for both", "disaggregated": "pools of their own"}
SIZE_WORDS = {
    "gpus": ("GPUs", "Accelerators to split over."),
    "batch": ("Batch", "Sequences of one optimizer step."),
}


class Control(NamedTuple):
    """What the browser shows of a control, its value, and the state after a message of it."""

    field: Field
    value: Any
    take: Callable[[Any], State]


# ---- The state and its numbers ------------------------------------------------------------------


def numbers_of(state: State) -> Mapping[str, Number]:
    """Return the numbers that sliders move, as the catalogue has them."""
    return _numbers(dataclasses.replace(unchanged(state), gpus=1, batch=1, where=""))


@functools.lru_cache(maxsize=64)
def _numbers(state: State) -> Mapping[str, Number]:
    told = with_change(state, SEQUENCE, ASSUMED_SEQUENCE) if _silent(state.own_model) else state
    each = numbers(asked(told)).items()
    moved = {path: number_of(path, *found) for path, found in each if path.startswith(MOVED)}
    if not any(path == EXPERTS and found[0] for path, found in each):
        moved.pop(IMBALANCE, None)  # of experts alone
    return moved | OF_TABS


@functools.lru_cache(maxsize=64)
def _silent(own: Upload | None) -> bool:
    """Return whether a model's file does not say the tokens of a sequence."""
    return own is not None and model_of(own)[0].sequence is None


def check_numbers(state: State) -> None:
    """Check how far the changed numbers of a state are from the catalogue's."""
    for path, value in state.changes:
        if path in (known := numbers_of(state)):
            known[path].check(value)


def can_be_shown(state: State) -> State:
    """Return a state after checking that its form can be shown, whatever is typed in its texts."""
    asked(dataclasses.replace(checked(state), where="", gpus=1, batch=1))
    check_numbers(state)
    return state


def routes(state: State) -> bool:
    """Return whether the model of a state has experts."""
    return numbers_of(state).get(IMBALANCE) is not None


def fields_for_map(state: State) -> dict[str, str]:
    """Return the numbers that a map may move, with their names."""
    known = {*PATHS.values(), *numbers_of(state)}
    return {path: words_of(path) for path in MAPPED if path in known}


# ---- Kinds of controls --------------------------------------------------------------------------


def _field(kind: str, name: str, label: str, help: str = "", **more: Any) -> Field:
    return {"kind": kind, "name": name, "label": label, "help": help, **more}


def _replaced(state: State, **fields: Any) -> State:
    return can_be_shown(dataclasses.replace(state, **fields))


def _select(
    state: State,
    name: str,
    label: str,
    options: Iterable[Option],
    take: Callable[[str], State] | None = None,
    help: str = "",
    value: str | None = None,
) -> Control:
    """Return a control that chooses one of some values, by default of a field of the state."""
    pairs = [[one, one] if isinstance(one, str) else list(one) for one in options]

    def taken(message: Any) -> State:
        if message not in [one for one, *_ in pairs]:
            raise refusal(name, f"{shown(message)}: none of its values")
        return take(message) if take else _replaced(state, **{name: message})

    own = getattr(state, name) if value is None else value
    return Control(_field("select", name, label, help, options=pairs), own, taken)


def _one_of_few(state: State, name: str, label: str) -> Control:
    return _select(state, name, label, [(one, SAID.get(one, one)) for one in CHOSEN[name]])


def _text(state: State, name: str, label: str, example: str, help: str) -> Control:
    def taken(message: Any) -> State:
        return _replaced(state, **{name: _as(str, name, message).strip()})

    field = _field("text", name, label, help, placeholder=example)
    return Control(field, getattr(state, name), taken)


def _drop(name: str, kinds: str, accept: str, take: Callable[[Upload], State]) -> Control:
    """Return a control that takes a file."""
    label = f"Or drop in a file of my own ({kinds})"
    return Control(_field("file", name, label, accept=accept), None, lambda m: take(_file(m)))


def _slider(number: Number, value: float, take: Callable[[float], State], mark: str) -> Control:
    """Return a slider with a field for the exact value."""
    name, label = number.path, number.words[0].upper() + number.words[1:]
    place = min(range(len(number.stops)), key=lambda i: abs(number.stops[i] - value))

    def taken(message: Any) -> State:
        told = _as(Mapping, name, message)
        if "text" in told:
            return take(number.read(str(told["text"])))
        stop = told.get("index")
        if not isinstance(stop, int) or not 0 <= stop < len(number.stops):
            raise refusal("page", f"{name}: no such stop of its slider, given {shown(stop)}")
        return take(number.stops[stop])

    field = _field("range", name, label, number.about, texts=texts(number.stops, number.unit))
    said = {"index": place, "text": texts((value,), number.unit)[0], "mark": mark}
    return Control(field, said, taken)


def _as(kind: Any, name: str, message: Any) -> Any:
    if not isinstance(message, kind):
        raise refusal("page", f"{name}: no value of this control")
    return message


def _file(message: Any) -> Upload:
    if not isinstance(message, Mapping) or not isinstance(message.get("file"), str):
        raise refusal("file", "not a file")
    if not isinstance(message.get("text"), str):
        raise refusal(message["file"][:80], "too large; expected a file of some kilobytes")
    return upload(message["file"], message["text"])


# ---- The question -------------------------------------------------------------------------------


def _moved(state: State, path: str) -> Control:
    """Return the slider of a number of the inputs."""
    number, changes = numbers_of(state)[path], dict(state.changes)
    value = changes.get(path, number.value)
    mark = "changed" if path in changes else ""
    silent = {SEQUENCE: _silent(state.own_model), TOKENS: number.value == ASSUMED}
    if (path in (RENT, PRICE) or silent.get(path)) and value == number.value:
        mark = "assumed"
    return _slider(number, value, lambda found: _with_number(state, number, found), mark)


def _with_number(state: State, number: Number, value: float) -> State:
    number.check(value)
    return checked(with_change(state, number.path, None if value == number.value else value))


def _size(state: State, name: str) -> Control:
    words, about = SIZE_WORDS[name]
    own = getattr(state, name)
    number = Number(name, words, "1", about, own, sizes(WHOLE[name]))
    return _slider(number, own, lambda found: _replaced(state, **{name: int(found)}), "")


def _margin(state: State) -> Control:
    """Return the control of the share of the memory that stays free."""
    usable, words = numbers_of(state)[USABLE], "memory to leave free"
    value = 1.0 - dict(state.changes).get(USABLE, usable.value)

    def take(share: float) -> State:
        if not 0.0 <= share < 1.0:
            raise refusal(words, f"expected a share from 0 to 99 %, given {shown(share)}")
        return _with_number(state, usable, 1.0 - share)

    about = "Only plans that leave so much fit."
    number = Number("margin", words, "%", about, value, MARGINS)
    return _slider(number, value, take, "changed" if USABLE in dict(state.changes) else "")


def _choice(state: State, name: str, help: str = "") -> Control:
    """Return the control of a structural choice; without a usual one, each plan has its own."""
    usual = getattr(getattr(training.recipe, name), "value", None)
    values = [m.value for m in kind_of_choice(training.recipe, name) if m.value != usual]
    options: list[Option] = [("", f"{usual} (usual)" if usual else "the faster one"), *values]

    def take(value: str) -> State:
        return can_be_shown(with_choice(state, name, value or None))

    label, own = name.replace("_", " ").capitalize(), dict(state.choices).get(name, "")
    return _select(state, f"{CHOICE}{name}", label, options, take, help, own)


def _kept(state: State, gone: Callable[[str], bool], **fields: Any) -> State:
    """Return a state with another model or system, whose numbers are its own."""
    kept = tuple(one for one in state.changes if not gone(one[0]))
    if _silent(fields.get("own_model")):
        kept += ((SEQUENCE, ASSUMED_SEQUENCE),)
    return _replaced(state, changes=kept, **fields)


def _what(state: State) -> list[Control]:
    def take(name: str, file: Upload | None = None) -> State:
        found = _kept(state, lambda path: path.startswith("model."), model=name, own_model=file)
        return found if routes(found) else dataclasses.replace(found, dispatcher="")

    return [
        _named(state, "model", state.own_model, models(), take),
        _drop(
            "own_model", "config.json or .toml", ".json,.toml", lambda file: take(state.model, file)
        ),
        _size(state, "batch"),
        _moved(state, SEQUENCE),
        _moved(state, TOKENS),
        _one_of_few(state, "precision", "Number format"),
        *([_dispatcher(state)] if routes(state) else []),
    ]


def _dispatcher(state: State) -> Control:
    """Return the control of who exchanges tokens of experts, and what software does about them."""
    help = "Who exchanges tokens between experts."
    if state.dispatcher:
        help = f"{catalog.describe('dispatchers', state.dispatcher)['title']}."
    options: list[Option] = [("", "DeepEP or HybridEP (usual)"), *catalog.names("dispatchers")]
    return _select(state, "dispatcher", "Dispatcher of experts", options, help=help)


def _where(state: State) -> list[Control]:
    own, help = state.own_system, "Numbers: those of the file."
    if own is None:
        entry = catalog.describe("systems", state.system)
        help = f"{entry['title']}. Numbers: {entry['source']}."

    def take(name: str, file: Upload | None = None) -> State:
        own = {"precision": START.precision, "own_system": file}
        return _kept(state, of_machine, system=name, **own)

    return [
        _named(state, "system", own, systems(), take, help),
        _drop("own_system", ".toml", ".toml", lambda file: take(state.system, file)),
        _size(state, "gpus"),
        *(_moved(state, path) for path in MAIN if path in numbers_of(state)),
        Control(
            _field("button", "reset", "Back to the catalogue's numbers"), None,
            lambda _: dataclasses.replace(state, changes=(), choices=(), dispatcher=""),
        ),
    ]  # fmt: skip


def _named(
    state: State,
    name: str,
    own: Upload | None,
    known: Iterable[Option],
    take: Callable[[str], State],
    help: str = "",
) -> Control:
    """Return the control of a model or a system: a file of one's own is chosen until another is."""
    file = f"file:{own.name}" if own else ""
    options: list[Option] = [(file, f"{own.name} (my file)")] if own else []
    options += known

    def taken(value: str) -> State:
        return state if value == file else take(value)

    return _select(state, name, name.capitalize(), options, taken, help, file or None)


def _plan(state: State) -> list[Control]:
    rules = "Only plans that keep these are compared."
    mine = "Fields of it, or all; the tab Compare shows it beside the best."
    return [
        _margin(state),
        _choice(state, EXCHANGE, "How context ranks see the whole sequence."),
        _text(state, "where", "Rules", "tp<=8,zero<=1", rules),
        _text(state, "mine", "My plan", "tp=8,pp=4", mine),
    ]


def _rest(state: State, more: str) -> list[Control]:
    """Return the choice of any other number, and the sliders of that one and of changed ones."""
    main = {*MAIN, SEQUENCE, TOKENS, USABLE}
    rest = [p for p in numbers_of(state) if p not in main and not p.startswith(BESIDE)]
    options: list[Option] = [("", "Choose one"), *((path, words_of(path)) for path in rest)]
    chosen = _select(state, "more", "Number", options, lambda _: state, value=more)
    paths = dict.fromkeys([more, *dict(state.changes)])
    return [chosen, *(_moved(state, path) for path in paths if path in rest)]


def _choices(state: State) -> list[Control]:
    recipe = training.recipe
    names = [f.name for f in dataclasses.fields(recipe) if f.name not in {EXCHANGE, *OF_A_MODEL}]
    known = [n for n in names if issubclass(kind_of_choice(recipe, n), enum.Enum)]
    return [_choice(state, name) for name in known]


class Controls(NamedTuple):
    """Groups of controls: their names and titles, and whether they are open at first."""

    groups: Sequence[tuple[str, str, Sequence[Control], bool]] = ()

    @property
    def fields(self) -> list[dict[str, Any]]:
        """Return the groups as the browser's side reads them."""
        return [
            {"name": name, "title": title, "fields": [one.field for one in held], "open": is_open}
            for name, title, held, is_open in self.groups
        ]

    @property
    def controls(self) -> dict[str, Control]:
        """Return the controls by name."""
        return {one.field["name"]: one for _, _, held, _ in self.groups for one in held}

    @property
    def values(self) -> dict[str, Any]:
        """Return what every control shows."""
        return {n: one.value for n, one in self.controls.items() if one.value is not None}


def question_form(state: State, more: str = "") -> Controls:
    """Return the controls of the question; ``more`` is a further number that is chosen."""
    return Controls(
        [
            ("model", "What to train", _what(state), True),
            ("system", "On what", _where(state), True),
            ("plan", "Rules and my plan", _plan(state), True),
            ("more", "Every other number", _rest(state, more), False),
            ("choices", "Choices of the software", _choices(state), False),
        ]
    )


def _server(state: State, beside: Control) -> list[Control]:
    """Return the controls of servers: requests, limits, software, formats, and what is beside."""
    return [
        *(_moved(state, path) for path in SERVED),
        _one_of_few(state, "split", "Prompts and answers"),
        _select(state, "software", "Software", [("", "usual"), *catalog.names(SERVERS)]),
        _one_of_few(state, "weights", "Format of weights"),
        _one_of_few(state, "cache", "Format of the cache"),
        beside,
        _moved(state, RENT),
    ]


def tab_form(state: State, tab: str) -> Controls:
    """Return the controls of a tab: one group, or none."""
    fields = list(fields_for_map(state).items()) if tab == "map" else ()
    paid = _one_of_few(state, "paid", "GPUs are")
    beside = _select(state, "other", "Beside it", systems())
    schedules = [(one, one or "the plan's own") for one in CHOSEN["schedule"]]
    every: dict[str, tuple[str, list[Control]]] = {
        "map": ("Fields of the map", [_select(state, n, n.capitalize(), fields) for n in UP]),
        "schedule": ("Timeline", [_select(state, "schedule", "Schedule", schedules)]),
        "run": ("Prices and failures", [paid, *(_moved(state, p) for p in operation_of(state))]),
        "serving": ("Requests, limits and software", _server(state, beside)),
        "compare": ("Two machines", [beside]),
    }
    return Controls([(tab, *every[tab], True)]) if tab in every else Controls()


UP = ("across", "up")  # fields of the state that are the map's


def applied(state: State, name: str, message: Any) -> State:
    """Return the state after a message of the page: the name of a control, and its new value.

    >>> applied(START, "gpus", {"text": "2,048"}).gpus
    2048
    >>> applied(START, "system.nics", {"text": "2"}).changes
    (('system.nics', 2.0),)
    """
    for form in (question_form(state, name), *(tab_form(state, tab) for tab in TABS)):
        if name in form.controls:
            return form.controls[name].take(message)
    raise refusal("page", f"{shown(name)}: no such control")


def at_place(state: State, *places: tuple[str, float]) -> State:
    """Return the state at a place of the map: its two numbers become those of the question.

    Whole numbers are rounded. Raises: InputError as ``applied`` does.
    """
    for path, value in places:
        name = next((short for short, full in PATHS.items() if full == path), "")
        if name:
            state = _replaced(state, **{name: max(1, round(value))})
        elif path in (known := numbers_of(state)):
            state = _with_number(state, known[path], float(value))
        else:
            raise refusal("map", f"{shown(path)}: no such number")
    return state


# ---- What is wrong ------------------------------------------------------------------------------

ABOUT = {  # with what an error begins -> the control that it is about
    **{name: name for name in FIELDS},
    "my plan": "mine",
    "memory to leave free": "margin",
    **{words_of(path): path for path in (*MAPPED, *OF_TABS) if "." in path},
    **{path: path for path in SERVED},
}


def control_of(words: str, last: str, state: State) -> str:
    """Return the control that an error is about: the one that it names, else the last that moved.

    An error of a link is about none of the numbers, but on how many accelerators is always asked.

    >>> control_of("where: tp<<8 is not a constraint", "gpus", START)
    'where'
    >>> control_of("plan: none is legal on 102 accelerators", "batch", START)
    'batch'
    >>> control_of("link: own_model: damaged; expected the whole link", "", START)
    'own_model'
    """
    head = words.removeprefix("link: ").partition(":")[0]
    if head.endswith(FILES) and last not in UPLOADS:
        return "own_model"
    own = {"precision": "weights"} if state.tab == "serving" else {}
    named = {**{path: path for path, _ in state.changes}, **ABOUT, **own}.get(head)
    return named or last or ("gpus" if head == "plan" else "")
