"""The checked question of a state, its files read safely, and the numbers that sliders move."""

import dataclasses
import functools
import tomllib
from collections.abc import Mapping
from typing import Any, NamedTuple

import numpy as np

from jaxroof import catalog
from jaxroof.analyses.training_plans import plans_asked
from jaxroof.app.state import (
    MODELS,
    PAID,
    PATHS,
    START,
    WHOLE,
    State,
    Upload,
    checked,
    ungrouped,
    whole_number,
)
from jaxroof.catalog import huggingface
from jaxroof.catalog.architecture import Architecture
from jaxroof.catalog.lookup import architecture_with_choices, only_parameters
from jaxroof.catalog.needs import answers
from jaxroof.engine.search.problem import SearchProblem
from jaxroof.errors import refusal, unknown
from jaxroof.estimators import on_system
from jaxroof.estimators.serving.inputs import ServingLimits, Workload
from jaxroof.estimators.training.step import training
from jaxroof.estimators.whole_run.operation import Operation
from jaxroof.formulas.whole_run import HOUR
from jaxroof.records import leaves
from jaxroof.settings import choices_of
from jaxroof.units import parse, show
from jaxroof.views.parameter_words import TIER
from jaxroof.views.parameter_words import WORDS as SHARED
from jaxroof.views.parameter_words import words_of as words_of_field

SHOWN = {  # fields of a state that choose what is shown, not what is asked
    name: getattr(START, name)
    for name in (
        *("mine", "other", "across", "up", "schedule", "tab"),
        *("software", "weights", "cache", "split"),
    )
}
NAMES = ("base", "chip")  # fields of a file that name another entry
MOST_LINE = 500  # characters of a line: a key of thousands of parts takes a minute to read


def asked(state: State, run: bool = False) -> SearchProblem:
    """Return the checked search of a state, with its accelerators; of the whole run with ``run``.

    >>> float(asked(START).inputs.gpus)
    256.0
    """
    return _asked(dataclasses.replace(checked(state), **SHOWN), run)


@functools.lru_cache(maxsize=64)
def _asked(state: State, run: bool) -> SearchProblem:
    model = model_of(state.own_model) if state.own_model else state.model
    own: Any = table_of(state.own_system) if state.own_system else None
    of = on_system(training, own or state.system)
    machine = state.system if own is None else of.names["system"](own)
    precision = {"precision": state.precision} if state.precision != START.precision else {}
    named: dict[str, Any] = {"model": model, "system": machine, "global_batch": float(state.batch)}
    named |= {"dispatcher": state.dispatcher or None}
    named |= operation_of(state) if run else {}
    found = plans_asked(of, {**named, **_settings(state), **precision}, state.where)
    inputs = dataclasses.replace(found.inputs, gpus=np.float64(state.gpus))
    return dataclasses.replace(found, inputs=inputs)


def check_stages(found: SearchProblem) -> None:
    """Check that a step has pipeline stages, of which a tab says more."""
    assert found.estimator.plan is not None
    if "pipeline" not in found.estimator.plan_fields:
        raise refusal("system", "a torus of TPUs, whose step has no stages; expected another tab")


def unchanged(state: State) -> State:
    """Return the state with the numbers of the catalogue."""
    return dataclasses.replace(state, changes=())


def _settings(state: State) -> dict[str, Any]:
    """Return the changed numbers and choices as settings."""
    known = choices_of(training.recipe)
    for name, _ in state.choices:
        if name not in known:
            raise unknown("choice", name, "structural choice", known)
    for path, _ in state.changes:
        if path.startswith(BESIDE):
            if path not in OF_TABS:
                raise unknown("", path, "number of a run or of a server", OF_TABS)
        elif path.partition(".")[0] not in ("system", "model", "software", "shared", "activations"):
            raise refusal(path, "expected a number of the system, the model or the software")
    of_step = {path: value for path, value in state.changes if not path.startswith(BESIDE)}
    return {**of_step, **dict(state.choices)}


def numbers(found: SearchProblem) -> dict[str, tuple[float, Any]]:
    """Return every number of the inputs that is there, with the metadata of its field.

    Those of two links are left out where a system has tiers.
    """
    told = leaves(dataclasses.replace(found.inputs, plan=None))
    unread = UNREAD if found.inputs.system.tiers is not None else ()
    return {
        path: (float(value), field.metadata)
        for path, field, value in told
        if value is not None and not path.startswith(unread)
    }


@functools.cache
def systems() -> tuple[str, ...]:
    """Return the systems that the page can be asked about."""
    return tuple(name for name in catalog.machines() if training.name in answers(name))


@functools.cache
def models() -> tuple[tuple[str, str, str], ...]:
    """Return the models that the page can be asked about, by family."""
    family = {name: catalog.describe(MODELS, name)["family"] for name in catalog.names(MODELS)}
    timed = [name for name in family if _is_timed(*architecture_with_choices(name))]
    return tuple(
        (name, name, each[:1].upper() + each[1:])
        for each in dict.fromkeys(family.values())
        for name in timed
        if family[name] == each
    )


def _is_timed(model: Architecture, choices: Mapping[str, str]) -> bool:
    """Return whether a step of a model has a time: it has a vocabulary, and formulas."""
    return not model.classes and not only_parameters(model, choices)


# ---- Files that were dropped in -----------------------------------------------------------------


def model_of(own: Upload) -> tuple[Any, dict[str, str]]:
    """Return the record of a model's file, and the structural choices that come with it.

    >>> config = '{"model_type": "gpt2", "n_layer": 2, "n_embd": 8, "n_head": 2, "vocab_size": 50'
    >>> record, choices = model_of(Upload("config.json", config + ', "n_positions": 16}'))
    >>> float(record.layers), choices["norm"]
    (2.0, 'layernorm')
    """
    return architecture_with_choices(model_table(own))


def model_table(own: Upload) -> catalog.Table:
    """Return what a model's file says, be it TOML or a config of Hugging Face."""
    if own.name.endswith(".toml"):
        return table_of(own)
    return catalog.Table(own.name, huggingface.entry(own.name, own.text))


def table_of(own: Upload) -> catalog.Table:
    """Return what a TOML file says; the entries that it changes are those of the catalogue.

    >>> table_of(Upload("m.toml", 'base = "/etc/passwd"'))
    Traceback (most recent call last):
    jaxroof.errors.InputError: m.toml: base: a path; expected a name of the catalogue
    """
    if not own.name.endswith(".toml"):
        raise refusal(own.name, "expected a .toml file")
    longest = max(map(len, own.text.splitlines()), default=0)
    if longest > MOST_LINE:
        raise refusal(own.name, f"a line of {longest:,} characters; expected at most {MOST_LINE}")
    try:
        written = tomllib.loads(own.text)
    except (ValueError, RecursionError) as error:
        raise refusal(own.name, f"not TOML: {error}; expected a TOML file") from None
    for where, inside in ((own.name, written), (f"{own.name}: chip", written.get("chip"))):
        named = {name: inside.get(name) for name in NAMES} if isinstance(inside, Mapping) else {}
        for field, name in named.items():
            if isinstance(name, str) and catalog.is_file(name):
                raise refusal(f"{where}: {field}", "a path; expected a name of the catalogue")
    return catalog.Table(own.name, written)


# ---- Numbers ------------------------------------------------------------------------------------

OPERATED = "operation."  # numbers of how a whole run is operated
RENT, PRICE, PUE = (f"{OPERATED}{name}" for name in ("rent", "price", "pue"))
PRICES = {  # numbers of a run by how its accelerators are paid
    PAID[0]: (RENT,),
    PAID[1]: (PRICE, *(f"{OPERATED}{name}" for name in ("years", "interest", "tariff"))),
}
ALWAYS = (f"{OPERATED}chip_mtbf", PUE)
PROMPT, OUTPUT = "workload.prompt", "workload.output"
LIMITED = {name: f"limits.{name}" for name in ("ttft", "tpot", "load")}
BESIDE = (OPERATED, "workload.", "limits.")  # begin numbers that are no step's
USUAL = Operation(rent=2.0 / HOUR, price=31_250.0)  # docs/models/whole_run.md, section 1
USUAL_SERVER = Workload(prompt=4096.0, output=1024.0), ServingLimits(ttft=2.0, tpot=0.05, load=0.0)
TOKENS, SEQUENCE = "model.training_tokens", "model.sequence"
IMBALANCE = "activations.routing_imbalance"
WORDS = {
    "gpus": "GPUs",
    "global_batch": "batch",
    SEQUENCE: "sequence",
    TOKENS: "training tokens",
    IMBALANCE: "routing imbalance",
    RENT: "rent of a GPU",
    PRICE: "price of a GPU",
    PUE: "PUE",
    f"{OPERATED}years": "years of use",
    f"{OPERATED}interest": "interest a year",
    f"{OPERATED}tariff": "price of energy",
    f"{OPERATED}chip_mtbf": "time between failures",
    PROMPT: "prompt",
    OUTPUT: "answer",
    LIMITED["ttft"]: "most TTFT",
    LIMITED["tpot"]: "most TPOT",
    LIMITED["load"]: "load",
}
MAIN = (  # numbers that always have a slider, where the system has them
    "system.matrix_flops",
    "system.hbm_bandwidth",
    "system.hbm_capacity",
    "system.fast_domain",
    "system.fast_bandwidth",
    "system.slow_bandwidth",
    *(f"system.tiers.{k}.{name}" for k in (0, 1, 2) for name in ("size", "bandwidth")),
    "system.tiers.1.oversubscription",
    "system.tiers.2.oversubscription",
)
UNREAD = ("system.fast_", "system.slow_", "system.nics", "system.library.")  # beside tiers
MAPPED = ("gpus", "global_batch", *MAIN, "system.nics", SEQUENCE)
MOVED = ("system.", "software.", "shared.", SEQUENCE, TOKENS, IMBALANCE)  # that a slider may move
SIZES = {path: WHOLE[name] for name, path in PATHS.items()}
SPAN = 16.0  # a slider goes from 1 / SPAN to SPAN times the system's own value
REACH = 1e6  # times the system's own value, beyond which no value is taken
USABLE = "system.hbm_usable"  # what a margin of memory changes: its rest stays free
MARGINS = tuple(p / 100.0 for p in (0, 1, 2, 3, 5, 8, 10, 12, 15, 20, 25, 30, 40, 50))
LOADS = (0.0, *(first * 10.0**k for k in range(-1, 4) for first in (1.0, 2.0, 5.0)))
UNITS = (  # that a number must be typed with
    *("B", "B/s", "FLOP/s", "s", "FLOP", "W", "USD", "USD/s", "USD/J", "1/year"),
)
WRITTEN = {  # units of prices and years as people write them, and how many make one
    "USD": ("$", 1.0),
    "USD/s": ("$/h", 3600.0),
    "USD/J": ("$/kWh", 3.6e6),
    "1/year": ("%", 100.0),
    "year": ("years", 1.0),
}
LOAD = "request/s"
LONG = 7200.0  # seconds from which on a time is shown in hours
RUN_SPAN = 4.0  # as SPAN, of a number of a run
TRILLIONS = 1e10  # tokens from which on they are shown in trillions
STOPS = 97  # of a slider; the middle one is the system's own value
DOMAINS = (1, 2, 4, 8, 16, 32, 36, 64, 72, 128, 144, 256, 576)


class Number(NamedTuple):
    """A number of the question: its path, its name, unit and sentence, and its slider's stops."""

    path: str
    words: str
    unit: str
    about: str
    value: float
    stops: tuple[float, ...]

    def read(self, text: str) -> float:
        """Return the value that is typed, which has its unit; what is shown is exact."""
        if self.path in WHOLE:
            return whole_number(self.path, text)
        plain = ungrouped(text.strip())
        if plain == ungrouped(shown(self.value, self.unit)):
            return self.value
        found = parse(plain, "1" if self.unit == "%" else self.unit, self.words)
        if self.unit in UNITS and _bare(plain):
            example = f"such as {shown(self.value, self.unit)}"
            raise refusal(self.words, f"expected a number with its unit, {example}, given {plain}")
        return found

    def check(self, value: float) -> None:
        """Check that a value is not absurdly far from the catalogue's."""
        least, most = self.value / REACH, self.value * REACH
        if self.value > 0.0 and value > 0.0 and not least <= value <= most:
            span = f"expected {show(least, self.unit)} to {show(most, self.unit)}"
            raise refusal(self.words, f"{span}, given {show(value, self.unit)}")


def number_of(path: str, value: float, about: Mapping[str, Any]) -> Number:
    """Return a number of the inputs by the metadata of its field."""
    unit, said = str(about["unit"]), str(about["doc"])
    return Number(path, words_of(path), unit, said, value, stops(path, value, about))


def words_of(path: str) -> str:
    """Return a number's everyday name.

    >>> words_of("system.fast_bandwidth"), words_of("software.year")
    ('NVLink bandwidth', 'software year')
    """
    leaf = path.removeprefix("system.")
    if TIER.search(leaf):
        return words_of_field(leaf)
    return WORDS.get(path) or SHARED.get(leaf) or leaf.replace(".", " ").replace("_", " ")


def operation_of(state: State) -> dict[str, float]:
    """Return how the run of a state is operated, by path: what was moved, else what is usual.

    >>> sorted(operation_of(START))
    ['operation.chip_mtbf', 'operation.pue', 'operation.rent']
    """
    moved = dict(state.changes)
    paths = (*PRICES[state.paid], *ALWAYS)
    return {path: moved.get(path, OPERATION[path].value) for path in paths}


def is_operated(state: State) -> bool:
    """Return whether anything of a run was chosen, so that a text to share should have it."""
    return state.paid != START.paid or any(path.startswith(OPERATED) for path, _ in state.changes)


def of_machine(path: str) -> bool:
    """Return whether a number is the machine's; memory to leave free is of the question."""
    return path.startswith("system.") and path != USABLE


def _bare(text: str) -> bool:
    try:
        float(text)
    except ValueError:
        return False
    return True


def stops(path: str, value: float, about: Mapping[str, Any]) -> tuple[float, ...]:
    """Return the values of a slider around a value, in equal ratios.

    >>> stops("system.nics", 1.0, {"whole": False, "most": None})[48]
    1.0
    >>> stops("model.sequence", 100.0, {})
    (8.0, 16.0, 32.0, 64.0, 100.0, 128.0, 256.0, 512.0, 1024.0)
    """
    if path == "system.fast_domain":
        return tuple(sorted({*map(float, DOMAINS), value}))
    if path == LIMITED["load"]:
        return LOADS
    if path in (SEQUENCE, PROMPT, OUTPUT):
        least, most = np.ceil(np.log2(max(value / SPAN, 1.0))), np.floor(np.log2(value * SPAN))
        return tuple(sorted({*(2.0 ** np.arange(least, most + 1.0)).tolist(), value}))
    if path == PUE:
        return tuple(np.linspace(1.0, 2.0, 51).round(2).tolist())
    if value == 0.0:
        return tuple(np.linspace(0.0, float(about["most"] or 1.0), STOPS).tolist())
    span = RUN_SPAN if path.startswith(OPERATED) else SPAN
    found = [float(f"{v:.3g}") for v in value * np.geomspace(1.0 / span, span, STOPS)]
    found[STOPS // 2] = value
    most = about["most"]
    if about["whole"]:
        found = sorted({max(1.0, round(v)) for v in found})
    found = [max(v, float(about.get("least") or 0.0)) for v in found]
    return tuple(dict.fromkeys(v if most is None else min(v, float(most)) for v in found))


def sizes(most: int) -> tuple[float, ...]:
    """Return the stops of a number of accelerators or of sequences: powers of two."""
    return tuple(2.0**k for k in range(int(np.log2(most)) + 1))


def shown(value: float, unit: str) -> str:
    """Return a value as a slider shows it.

    >>> shown(4.8e12, "B/s"), shown(2048.0, "1"), shown(0.7, "1"), shown(0.1, "%")
    ('4.8 TB/s', '2,048', '0.7', '10 %')
    >>> shown(15.6e12, "token"), shown(8192.0, "token")
    ('15.6 T', '8,192')
    >>> shown(2.2 / 3600.0, "USD/s"), shown(1.8e8, "s"), shown(31250.0, "USD")
    ('2.2 $/h', '50,000 h', '31,250 $')
    """
    words, size = ("h", 1.0 / HOUR) if unit == "s" and value >= LONG else WRITTEN.get(unit, ("", 0))
    if words:
        return f"{float(f'{value * size:.4g}'):,.10g} {words}"
    if unit == LOAD and not value:
        return "any"
    if unit == "%":
        return f"{100.0 * value:.4g} %"
    if unit == "token" and value >= TRILLIONS:
        return f"{value / 1e12:.4g} T"
    if float(value).is_integer() and unit not in UNITS:
        return f"{value:,.0f}"
    return show(float(f"{value:.4g}"), unit)


@functools.lru_cache(maxsize=512)
def texts(stops: tuple[float, ...], unit: str) -> list[str]:
    """Return what a slider shows at each of its stops."""
    return [shown(value, unit) for value in stops]


OPERATION = {  # numbers of a run by path
    f"{OPERATED}{path}": number_of(f"{OPERATED}{path}", float(value), field.metadata)
    for path, field, value in leaves(USUAL)
    if any(f"{OPERATED}{path}" in paths for paths in (*PRICES.values(), ALWAYS))
}
SERVED = {  # numbers of a server by path
    f"{inside}{path}": number_of(f"{inside}{path}", float(value), field.metadata)
    for inside, usual in zip(BESIDE[1:], USUAL_SERVER, strict=True)
    for path, field, value in leaves(usual)
    if f"{inside}{path}" in WORDS
}
OF_TABS = OPERATION | SERVED
