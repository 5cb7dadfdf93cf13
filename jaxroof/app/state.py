"""Every choice of the page as one frozen record, to and from the text of a link."""

import base64
import dataclasses
import json
import pathlib
import re
import zlib
from collections.abc import Sequence
from typing import Any
from urllib.parse import parse_qsl, urlencode

from jaxroof import catalog
from jaxroof.analyses.serve import SPLITS
from jaxroof.errors import InputError, brief, refusal, shown, unknown
from jaxroof.estimators.serving.named_settings import CACHES
from jaxroof.estimators.serving.named_settings import PRECISIONS as SERVED
from jaxroof.units import parse

MODELS = "architectures"  # the kind of the catalogue's models
SERVERS = "serving_software"  # that of what serves
PRECISIONS = ("bf16", "fp8", "mxfp8", "nvfp4")
TABS = (
    *("plans", "time", "memory", "binds", "map", "schedule", "collective", "compare"),
    *("run", "serving", "share"),
)
PAID = ("rented", "bought")  # how accelerators are paid
OWN = ""  # the schedule that the best plan has
SCHEDULES = ("1f1b", "interleaved", "zb-h1", "dualpipe")
CHOICE = "choice."  # before the name of a structural choice in a link
MOST_LINK = 16_384  # characters of a link's question
MOST_TEXT = 65_536  # characters of a file that is dropped in
MOST_FIELDS = 64  # fields that a state may change
MOST_GPUS, MOST_BATCH = 131_072, 1_048_576
FILES = (".json", ".toml")  # how the names of files end that are dropped in
UPLOADS = ("own_model", "own_system")  # fields of the state that are files
GROUPED = re.compile(r"^[1-9][0-9]{0,2}(,[0-9]{3})+(?![0-9,])")
MOST_WORDS = 200  # characters of a constraint, or of a plan of one's own


@dataclasses.dataclass(frozen=True)
class Upload:
    """A file of a model or of a system that was dropped in: its name, and its text."""

    name: str
    text: str


def upload(name: str, text: str) -> Upload:
    """Return a file by its bare name."""
    bare = brief(pathlib.PurePosixPath(name.replace("\\", "/")).name)
    if not bare.endswith(FILES):
        raise refusal(bare, "expected a .toml file, or a model's config.json of Hugging Face")
    if len(text) > MOST_TEXT:
        raise refusal(bare, f"{len(text):,} characters; expected at most {MOST_TEXT:,}")
    return Upload(bare, text)


@dataclasses.dataclass(frozen=True, kw_only=True)
class State:
    """Every choice of the page.

    ``changes`` are numbers of the inputs by dotted path [SI], ``choices`` structural choices by
    name. ``across`` and ``up`` are the fields of the map, ``other`` is a second system to compare,
    ``dispatcher`` is that of experts. ``software``, ``weights`` (their format), ``cache`` and
    ``split`` are of servers. An empty text stands for what is usual.
    """

    model: str = "llama3-70b"
    own_model: Upload | None = None
    system: str = "h100-nvs8"
    own_system: Upload | None = None
    gpus: int = 256
    batch: int = 1024
    precision: str = "bf16"
    dispatcher: str = ""
    where: str = ""
    mine: str = ""
    other: str = "b200-180-sxm"
    across: str = "system.hbm_bandwidth"
    up: str = "system.matrix_flops"
    schedule: str = OWN
    paid: str = PAID[0]
    software: str = ""
    weights: str = ""
    cache: str = ""
    split: str = SPLITS[0]
    tab: str = TABS[0]
    changes: tuple[tuple[str, float], ...] = ()
    choices: tuple[tuple[str, str], ...] = ()

    @property
    def model_words(self) -> str:
        """Return what the model is called."""
        return self.own_model.name if self.own_model else self.model

    @property
    def system_words(self) -> str:
        """Return what the system is called."""
        return self.own_system.name if self.own_system else self.system


START = State()
FIELDS = [field.name for field in dataclasses.fields(State)][:-2]  # but changes and choices
WHOLE = {"gpus": MOST_GPUS, "batch": MOST_BATCH}
PATHS = {"gpus": "gpus", "batch": "global_batch"}  # of the state -> of the inputs
CHOSEN = {  # fields that have one of a few values
    "precision": PRECISIONS,
    "schedule": (OWN, *SCHEDULES),
    "paid": PAID,
    "weights": ("", *SERVED),
    "cache": ("", *CACHES),
    "split": SPLITS,
    "tab": TABS,
}
SYSTEMS = ("system", "other")
TYPED = ("where", "mine", "across", "up")


def checked(state: State) -> State:
    """Return a state after checking what it names and how large it is."""
    for name, known in CHOSEN.items():
        if getattr(state, name) not in known:
            raise unknown(name, getattr(state, name), name, known)
    own = state.own_model is not None
    named = [] if own else [("model", catalog.canonical(MODELS, state.model), MODELS)]
    named += [("dispatcher", state.dispatcher, "dispatchers")] if state.dispatcher else []
    named += [("software", state.software, SERVERS)] if state.software else []
    for field, name, kind in (*named, *((f, getattr(state, f), "systems") for f in SYSTEMS)):
        if name not in (known := catalog.machines() if kind == "systems" else catalog.names(kind)):
            raise unknown(field, name, field, known)
    for name, most in WHOLE.items():
        value = getattr(state, name)
        if not 1 <= value <= most:
            raise refusal(name, f"expected a whole number from 1 to {most:,}, given {value:,}")
    for name in TYPED:
        if len(getattr(state, name)) > MOST_WORDS:
            raise refusal(name, f"expected at most {MOST_WORDS} characters")
    if len(state.changes) + len(state.choices) > MOST_FIELDS:
        raise refusal("changes", f"expected at most {MOST_FIELDS} fields")
    return state


def whole_number(field: str, text: str) -> int:
    """Return the whole number in a text.

    >>> whole_number("gpus", "2048")
    2048
    """
    expected = f"expected a whole number from 1 to {WHOLE[field]:,}"
    wrong = refusal(field, f"{expected}, given {shown(text.strip())}")
    try:
        value = parse(ungrouped(text.strip()), "1", field)
    except InputError:
        raise wrong from None
    if value != int(value) or not 1 <= value <= WHOLE[field]:
        raise wrong
    return int(value)


def ungrouped(text: str) -> str:
    """Return a number without the commas between its thousands; other commas stay.

    >>> ungrouped("2,048"), ungrouped("1,0,2")
    ('2048', '1,0,2')
    """
    return GROUPED.sub(lambda found: found[0].replace(",", ""), text)


def with_change(state: State, path: str, value: float | None) -> State:
    """Return a state with one number of the inputs changed; None takes the change back.

    >>> with_change(START, "system.nics", 2.0).changes
    (('system.nics', 2.0),)
    """
    added = () if value is None else ((path, float(value)),)
    return dataclasses.replace(state, changes=_without(state.changes, path) + added)


def with_choice(state: State, name: str, value: str | None) -> State:
    """Return a state with one structural choice made; None takes it back."""
    added = () if value is None else ((name, value),)
    return dataclasses.replace(state, choices=_without(state.choices, name) + added)


def _without(pairs: tuple[tuple[str, Any], ...], name: str) -> tuple[tuple[str, Any], ...]:
    return tuple(one for one in pairs if one[0] != name)


# ---- Links --------------------------------------------------------------------------------------


def to_link(state: State) -> str:
    """Return a state as the question of a link: what differs from the first page.

    >>> to_link(dataclasses.replace(START, gpus=64, changes=(("system.nics", 2.0),)))
    '?gpus=64&system.nics=2.0'
    """
    said: list[tuple[str, str]] = []
    for name in FIELDS:
        value = getattr(state, name)
        if value != getattr(START, name):
            said.append((name, _packed(value) if name in UPLOADS else str(value)))
    said += [(path, repr(value)) for path, value in state.changes]
    said += [(f"{CHOICE}{name}", value) for name, value in state.choices]
    return f"?{urlencode(said)}" if said else ""


def from_link(link: str) -> State:
    """Return the checked state of a link.

    >>> from_link("?gpus=64&system.nics=2").changes
    (('system.nics', 2.0),)
    """
    try:
        return from_pairs(parse_qsl(link.removeprefix("?"), max_num_fields=MOST_FIELDS))
    except InputError:
        raise
    except ValueError:
        raise refusal("link", f"expected at most {MOST_FIELDS} fields") from None


def from_pairs(pairs: Sequence[tuple[str, str]]) -> State:
    """Return the checked state of the fields of a link."""
    if sum(len(name) + len(text) for name, text in pairs) > MOST_LINK:
        raise refusal("link", f"expected at most {MOST_LINK:,} characters")
    found: dict[str, Any] = {}
    changes: dict[str, float] = {}
    choices: dict[str, str] = {}
    for name, text in pairs:
        if name in found or name in changes or name.removeprefix(CHOICE) in choices:
            raise refusal(f"link: {name}", "given twice; expected it once")
        if name.startswith(CHOICE):
            choices[name.removeprefix(CHOICE)] = text
        elif "." in name:
            changes[name] = parse(text, "1", f"link: {name}")
        elif name in WHOLE:
            found[name] = whole_number(name, text)
        elif name in FIELDS:
            found[name] = _unpacked(name, text) if name in UPLOADS else text
        else:
            raise unknown("link", name, "field of the page", FIELDS)
    return checked(State(**found, changes=tuple(changes.items()), choices=tuple(choices.items())))


def _packed(upload: Upload) -> str:
    """Return a file as a short text of letters and digits."""
    written = json.dumps([upload.name, upload.text]).encode()
    return base64.urlsafe_b64encode(zlib.compress(written, 9)).decode()


def _unpacked(field: str, text: str) -> Upload:
    """Return the file in such a text, of which no more than is allowed is unpacked."""
    try:
        packed = base64.urlsafe_b64decode(text.encode())
        name, content = json.loads(zlib.decompressobj().decompress(packed, 2 * MOST_TEXT))
    except (ValueError, TypeError, zlib.error, RecursionError):
        raise refusal(f"link: {field}", "damaged; expected the whole link") from None
    if not isinstance(name, str) or not isinstance(content, str):
        raise refusal(f"link: {field}", "damaged; expected the whole link")
    return upload(name, content)
