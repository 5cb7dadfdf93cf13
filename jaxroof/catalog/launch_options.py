"""Plans as options of the software that launches them, written and read by one table.

``launchers.toml`` has the options, with their source; names are those of public documentation.
"""

import functools
import importlib.resources
import json
import re
import shlex
import tomllib
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from jaxroof.errors import InputError, refusal, shown
from jaxroof.units import equal_runs

Value = float | str
DEGREES = ("data", "tensor", "context", "pipeline", "interleave", "expert", "expert_tensor")
PLAN = (
    *(
        *DEGREES,
        "sequence_parallel",
        "microbatch",
        "rank_order",
        "zero_stage",
        "reshard",
        "recompute",
    ),
    "offload_optimizer",
)
TYPICAL: Mapping[str, Value] = {
    **dict.fromkeys(DEGREES, 1),
    "exchange": 1,
    "reshard": 1,
    "schedule": "1f1b",
}  # and 0 otherwise
BESIDE = ("global_batch", "sequence", "schedule", "stage_layers", "layout")
SEVERAL = ("data", "zero_stage")  # fields of which several options say a part
NEEDS = {"exchange": "context", "sequence_parallel": "tensor", "expert_tensor": "experts"}


class Launch(NamedTuple):
    """A plan as options of a software, what no option of it says, and what it can run instead."""

    title: str
    options: tuple[str, ...]  # as they are typed, one each
    unsaid: tuple[str, ...]  # "interleave 4": fields without an option
    able: tuple[tuple[str, str], ...]  # of such fields: ("interleave", "=1"), a rule on plans


class ReadLaunch(NamedTuple):
    """What the options of a launch say."""

    title: str  # of the software whose options they are
    plan: Mapping[str, int]  # fields that an option says
    absent: Mapping[str, int]  # fields that the software has so where no option says them
    beside: Mapping[str, Value]  # global_batch, sequence, schedule


@functools.cache
def _table() -> Mapping[str, Any]:
    text = importlib.resources.files("jaxroof.catalog").joinpath("launchers.toml")
    return tomllib.loads(text.read_text(encoding="utf-8"))


def launchers() -> tuple[str, ...]:
    """Return the names of the software whose options are known.

    >>> launchers()
    ('megatron', 'nemo', 'torchtitan', 'deepspeed')
    """
    return tuple(_table())


def launch_options(
    name: str,
    plan: Mapping[str, float],
    *,
    global_batch: float,
    sequence: float,
    experts: float = 0,
    schedule: str = "1f1b",
    modules: Sequence[str] = (),
    layers_of_chunks: Sequence[float] = (),
    mtp_layers: float = 0,
) -> Launch:
    """Return a plan of ``training`` as options of a software, one of ``launchers()``.

    Arguments: ``plan`` has the fields of a TrainingPlan; ``modules`` are the parts of a layer that
    selective recomputation computes again, ``layers_of_chunks`` the layers of every virtual stage,
    ``mtp_layers`` those of multi-token prediction, which the last stage has.

    >>> plan = {"data": 8, "tensor": 8, "sequence_parallel": 1, "microbatch": 1, "zero_stage": 1}
    >>> " ".join(launch_options("megatron", plan, global_batch=64, sequence=8192).options[:3])
    '--tensor-model-parallel-size 8 --sequence-parallel --context-parallel-size 1'
    """
    about = _table()[name]
    whole = {**dict.fromkeys(DEGREES, 1.0), "exchange": 1.0, "reshard": 1.0}
    whole |= {"experts": experts, **plan}
    chunks = [float(layers) for layers in layers_of_chunks]
    ends = _only_ends_have_fewer(chunks)
    uneven = len({*chunks}) > 1 and not ends
    interleaved = schedule == "1f1b" and whole["interleave"] > 1
    said: dict[str, Value] = {
        **whole,
        "global_batch": global_batch,
        "sequence": sequence,
        "replica_batch": global_batch / whole["data"],
        "schedule": "interleaved" if interleaved else schedule,
        "modules": " ".join(modules),
        "ends_count_as_layers": float(ends),
        "stage_layers": chunks[0] if len({*chunks}) == 1 else 0,
        "uneven": float(uneven),
        "layout": _layout(chunks, mtp_layers) if uneven else "",
    }
    typed: list[str] = []
    written: set[str] = set()
    for option in about["options"]:
        word = _word(option, said.get(option["field"], 0))
        if word is not None and not option.get("read_only") and _counts(option, said):
            line = about["style"].format(name=option["name"], value=word).strip()
            typed += filter(None, (line, option.get("beside")))
            written.add(option["field"])
    if name != "torchtitan":
        written.add("data")  # follows from the number of processes
    if written & {"stage_layers", "layout"}:
        written.add("interleave")
    absent = _absent(name)
    fields = [
        field
        for field in (*PLAN, "exchange", "schedule")
        if field not in written
        and _matters(field, said)
        and said.get(field, 0) not in (absent.get(field, 0), "interleaved")
    ]
    unsaid = [f"{field.replace('_', ' ')} {_plainly(said.get(field, 0))}" for field in fields]
    if len({*chunks}) > 1 and not written & {"ends_count_as_layers" if ends else "layout"}:
        parts = [f"{many} x {n:g}" if many > 1 else f"{n:g}" for n, many in equal_runs(chunks)]
        unsaid.append(f"layers of the chunks of stages {', '.join(parts)}")
    rules = [
        (field, _able(about, field, absent)) for field in fields if field in (*PLAN, "exchange")
    ]
    return Launch(about["title"], tuple(typed), tuple(unsaid), tuple(rules))


def _plainly(value: Value) -> str:
    return value if isinstance(value, str) else f"{value:g}" if value < 1e6 else str(int(value))


def _able(about: Mapping[str, Any], field: str, absent: Mapping[str, Any]) -> str:
    """Return the rule that keeps a field to what options say: ``>=2``, or the one value it has."""
    values = {
        v for o in about["options"] if o["field"] == field for v in o.get("values", {}).values()
    }
    return f">={min(values)}" if values else f"={absent.get(field, 0)}"


def _layout(chunks: Sequence[float], mtp_layers: float) -> str:
    """Return the layers of virtual stages as Megatron-Core writes them: ``Et*3|(t*2|)*29mL``.

    >>> _layout([3, *[2] * 29, 0], 1)
    'Et*3|(t*2|)*29mL'
    """

    def layers(count: float) -> str:
        return "" if not count else "t" if count == 1 else f"t*{count:g}"

    inner = "".join(
        f"({layers(count)}|)*{many}" if many > 1 else f"{layers(count)}|"
        for count, many in equal_runs(chunks[1:-1])
    )
    return f"E{layers(chunks[0])}|{inner}{layers(chunks[-1])}{'m' * int(mtp_layers)}L"


def _stages(layout: str) -> int:
    """Return how many virtual stages a layout has.

    >>> _stages("Et*3|(tt|)*29,m|L")
    32
    """
    repeated = re.sub(r"\(([^()]*)\)\*(\d+)", lambda each: each[1] * int(each[2]), layout)
    return repeated.count("|") + 1


def _only_ends_have_fewer(chunks: Sequence[float]) -> bool:
    """Return whether the first and the last chunk have a layer less than each between them."""
    ends, inner = {*chunks[:1], *chunks[-1:]}, {*chunks[1:-1]}
    return len(ends) == len(inner) == 1 and max(inner) == max(ends) + 1


def _absent(name: str) -> Mapping[str, Any]:
    return {**TYPICAL, **_table()[name].get("absent", {})}


def _matters(field: str, said: Mapping[str, Value]) -> bool:
    """Return whether a field changes anything beside the others."""
    return field not in NEEDS or float(said.get(NEEDS[field], 1)) > 1


def _word(option: Mapping[str, Any], value: Value) -> str | None:
    """Return what is typed for a value; None where the option cannot say it."""
    if "values" in option:
        typed = [word for word, meant in option["values"].items() if meant == value]
        return typed[0] if typed else None
    if option.get("list"):
        return shlex.quote("[" + ",".join(str(value).split()) + "]")
    if option["field"] == "layout":
        return shlex.quote(str(value))
    return _plainly(value)


def _counts(option: Mapping[str, Any], said: Mapping[str, Value]) -> bool:
    most, least = option.get("most", {}), option.get("least", {})
    return all(float(said.get(field, 0)) >= bound for field, bound in least.items()) and all(
        float(said.get(field, 0)) <= bound for field, bound in most.items()
    )


# ---- Reading ------------------------------------------------------------------------------------


def is_launch(text: str) -> bool:
    """Return whether a text looks like launch options, and not like ``tp=8,pp=4``.

    >>> is_launch("--tensor-model-parallel-size 8"), is_launch("tp=8,pp=4")
    (True, False)
    """
    known = {_plain(option["name"]) for each in _table().values() for option in each["options"]}
    return any(_plain(name) in known for name, _ in _pairs(text))


def read_launch(where: str, text: str) -> ReadLaunch:
    """Return what launch options say: a command line, a script, a .toml or .json of a software.

    Errors begin with ``where``.

    >>> found = read_launch("--mine", "--tensor-model-parallel-size 8 --sequence-parallel")
    >>> found.title, found.plan["tensor"], found.plan["sequence_parallel"], found.absent["context"]
    ('Megatron-LM', 8, 1, 1)
    """
    pairs = {_plain(name): (name, value) for name, value in _pairs(text)}
    known = {
        name: sum(_plain(option["name"]) in pairs for option in about["options"])
        for name, about in _table().items()
    }
    best = max(known, key=lambda name: known[name])
    if not known[best]:
        raise refusal(
            where, "no launch option known; expected such as --tensor-model-parallel-size 8"
        )
    about, absent = _table()[best], _absent(best)
    said: dict[str, Value] = {}
    for option in about["options"]:
        field, plain = option["field"], _plain(option["name"])
        unread = option.get("written_only") or (field in said and field not in SEVERAL)
        if plain not in pairs or unread:
            continue
        if field == "microbatch" and not _counts(option, {**absent, **said}):
            continue  # torchtitan: the batch of a replica, where a pipeline divides it
        found = _meant(where, *pairs[plain], option)
        if field == "data":  # shards times replicas; -1: as many as are left
            if said.get(field, 1) == 1 and found not in (1, -1):
                said.update(option.get("alone", {}))
            found = -1 if -1 in (found, said.get(field)) else int(found) * int(said.get(field, 1))
        if field == "zero_stage":  # a distributed optimizer is said beside what shards more
            found = max(int(found), int(said.get(field, 0)))
        said[field] = found
    if said.get("data") == -1:
        del said["data"]
    able = {option["field"] for option in about["options"]} | {*about.get("absent", ())}
    open_ = {"data", "microbatch", *said}
    return ReadLaunch(
        about["title"],
        {field: int(said[field]) for field in (*PLAN, "exchange") if field in said},
        {
            field: int(absent.get(field, 0))
            for field in (*PLAN, "exchange")
            if field in able - open_ and _matters(field, {"experts": 2, **absent, **said})
        },
        {field: said[field] for field in BESIDE if field in said},
    )


def _meant(where: str, name: str, value: str | None, option: Mapping[str, Any]) -> Value:
    values = option.get("values")
    if values is None and (option.get("list") or option["field"] in ("modules", "layout")):
        return value or ""
    if values is not None:
        if "" in values:
            return values[""] if str(value).lower() not in ("false", "0") else 0
        if str(value).strip("\"'").lower() not in (each.lower() for each in values):
            expected = " or ".join(values)
            raise refusal(f"{where}: {name}", f"expected {expected}, given {shown(value)}")
        return {each.lower(): meant for each, meant in values.items()}[str(value).lower()]
    try:
        return int(str(value))
    except ValueError:
        raise refusal(
            f"{where}: {name}", f"expected a whole number, given {shown(value)}"
        ) from None


def _plain(name: str) -> str:
    return name.lstrip("-").replace("-", "_").lower()


def _pairs(text: str) -> Iterator[tuple[str, str | None]]:
    """Yield the options of a text with their values: of .json, of .toml, else of a shell."""
    for parse in (json.loads, tomllib.loads):
        try:
            read = parse(text)
        except (ValueError, RecursionError):
            continue
        if isinstance(read, Mapping) and (parse is json.loads or "[" in text):
            yield from _leaves("", read)
            return
    yield from _typed(text)


def _leaves(path: str, value: Any) -> Iterator[tuple[str, str | None]]:
    if isinstance(value, Mapping):
        for name, each in value.items():
            yield from _leaves(f"{path}.{name}" if path else str(name), each)
    else:
        yield path, str(value)


def _typed(text: str) -> Iterator[tuple[str, str | None]]:
    """Yield the options of command lines; ``$TP`` is what the script sets it to."""
    plain = re.sub(r"\\\r?\n", " ", text)
    plain = re.sub(r"(?m)(^|\s)#.*$", " ", plain)
    words: list[str] = []
    for line in plain.splitlines():
        try:
            words += shlex.split(line.strip().strip("()"))
        except ValueError:  # a quote that is closed elsewhere
            words += line.replace('"', " ").replace("'", " ").split()
    words = [part for word in words for part in (word.split() if " " in word else [word])]
    given = dict(re.findall(r"(?m)^\s*(?:export\s+|local\s+)?(\w+)=[\"']?([\w.]+)", plain))

    def value_of(word: str) -> str:
        variable = re.fullmatch(r"\$\{?(\w+)(?::?[-=](\w+))?\}?", word)
        return str(given.get(variable[1], variable[2] or word)) if variable else word

    for place, word in enumerate(words):
        name, equals, value = word.partition("=")
        name = re.sub(r"^\w+(?:\+)?=\(?", "", name)
        following = words[place + 1] if place + 1 < len(words) else "--"
        if equals and re.fullmatch(r"-{0,2}[\w.-]+", name):
            yield name, value_of(value)
            if value.startswith("--"):
                yield value, None if following.startswith("-") else value_of(following)
        elif word.lstrip('("').startswith("--"):
            bare = following.startswith("--") or following in (")", '"')
            yield word.lstrip('("'), None if bare else value_of(following)


def settings_of(
    where: str, found: ReadLaunch, layers: float, given: Mapping[str, float]
) -> dict[str, int]:
    """Return the fields of the plan that launch options say, and check what they say beside.

    Arguments: ``layers`` are those of the model; ``given`` has what is asked already, such as
    ``global_batch`` and ``sequence``.
    """
    for field, value in given.items():
        said = found.beside.get(field)
        if said is not None and said != value:
            words = field.replace("_", " ")
            raise InputError(f"{where}: {words} {said}, but asked for {value:g}; expected the same")
    plan = {**found.absent, **found.plan}
    if layout := str(found.beside.get("layout", "")):
        plan["interleave"] = max(1, _stages(layout) // plan.get("pipeline", 1))
    if stage_layers := float(found.beside.get("stage_layers", 0)):
        plan["interleave"] = max(1, round(layers / plan.get("pipeline", 1) / stage_layers))
    return plan
