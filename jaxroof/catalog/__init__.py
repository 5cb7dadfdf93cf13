"""Published models and systems, and files of the user in the same form.

An entry is one TOML table: the fields of its record, a title and a source; a system also has its
peak rates by number format. The caller supplies the fields with their units, and checks ranges.
"""

import copy
import functools
import importlib.resources
import os
import pathlib
import tomllib
from collections.abc import Collection, Iterator, Mapping
from typing import Any, NamedTuple

from jaxroof import units
from jaxroof.catalog import huggingface
from jaxroof.errors import nearest, refusal, shown, unknown

FORMATS = ("bf16", "fp8", "fp4", "int8", "fp32")

KINDS = ("model", "system", "fabric", "mlp", "architecture", "chip", "tpu")
SINGULAR = {f"{one}s": one for one in KINDS}
SINGULAR |= {"software": "software", "dispatchers": "dispatcher", "constants": "set of constants"}
SINGULAR |= {"serving_software": "software that serves"}
MODELS = ("models", "architectures")  # kinds that people call models
OTHERS = (
    "mlps",
    "systems",
    "fabrics",
    "software",
    "dispatchers",
    "constants",
    "serving_software",
)  # that are listed by name
TAKEN_FOR = {  # kind -> the other kind that people call models, and what is wrong with it here
    "models": (
        "architectures",
        "a model of today: ask with --estimator training; here expected bare layers",
    ),
    "architectures": (
        "models",
        "bare layers, a model of the study: ask with --estimator published (in a file: "
        'estimator = "published"); here expected a whole model',
    ),
}
TEXTS = ("title", "source", "note", "peaks_source")
ALSO = {
    "systems": ["peaks", "peaks_source", "chip", "nics_per_node", "fabric", "tiers", "library"],
    "chips": ["systems", "ranges", "bound", "unseen"],
    "tpus": ["systems"],
    "serving_software": [
        *("ampere", "hopper", "blackwell", "cdna3", "cdna4", "tpu"),
        *("weak", "weak_experts", "usual", "chips", "believed"),
    ],
    "architectures": ["family", "released", "taken", "left_out"],
}
UNLESS = {  # what an entry of the catalogue has if it does not say otherwise
    "architectures": {
        "attention": "heads",
        "recurrence": "none",
        "mlp": "gated",
        "norm": "rmsnorm",
        "biases": "none",
        "embeddings": "separate",
    }
}


def names(kind: str) -> tuple[str, ...]:
    """Return the names of the published ``models``, ``mlps`` or ``systems``, as in their file."""
    return tuple(_published(kind))


def machines() -> tuple[str, ...]:
    """Return the names that a system may be asked for by: systems, and fabrics that have one."""
    fabrics = _published("fabrics")
    return tuple(
        dict.fromkeys([*_published("systems"), *(n for n in fabrics if "system" in fabrics[n])])
    )


def describe(kind: str, name: str | os.PathLike[str]) -> dict[str, Any]:
    """Return an entry as written: strings with their units, title, source, notes.

    >>> describe("systems", "h200-nvs8")["hbm_bandwidth"]
    '4.8 TB/s'
    """
    return _written(kind, name)[1]


class Table(NamedTuple):
    """An entry inside a user's file: the file and the name of the table, and its values."""

    where: str
    values: Mapping[str, Any]


def entry(
    kind: str,
    name_or_path: str | os.PathLike[str] | Table,
    fields: Mapping[str, str],
    optional: Collection[str] | None = None,
    choices: Collection[str] = (),
) -> dict[str, Any]:
    """Return an entry by name, or from a file of the user, with its fields as floats in SI.

    ``fields`` maps each field to its unit. The keys of the result are those fields, ``title``,
    ``source`` and, for a system, ``peaks`` (number format -> FLOP/s). A name that ends in ".toml"
    or has a path separator is a file; its ``base`` names the entry that it changes. If such a file
    sets ``matrix_flops`` but no peaks, those of its base are dropped: they belong to another rate.
    A table inside a file counts as a file (``Table``). That of a system has its ``chip`` and its
    ``nics_per_node`` as written, if it has them.
    ``optional`` fields may be missing; by default, those that some published entry of this kind
    omits. ``choices`` may be present too, each as a text.

    >>> entry("systems", "b200-nvs8", {"hbm_bandwidth": "B/s", "fast_domain": "1"})["fast_domain"]
    8.0
    """
    where, written = _written(kind, name_or_path)
    if is_file(name_or_path):
        _check_complete(kind, where, written, fields, optional, choices)
    values: dict[str, Any] = {
        name: units.parse(written[name], unit, f"{where}: {name}")
        for name, unit in fields.items()
        if name in written
    }
    for key in (*TEXTS, *choices):
        check_type(written.get(key, ""), str, "a string", f"{where}: {key}")
    values |= {key: written[key] for key in choices if key in written}
    values |= {"title": written["title"], "source": written["source"]}
    if kind == "systems":
        values["peaks"] = read_peaks(written.get("peaks", {}), f"{where}: peaks")
        values |= {key: written[key] for key in ALSO[kind][2:] if key in written}
    return values


def canonical(kind: str, name: str) -> str:
    """Return the name of the entry that people call by a name, or the name itself."""
    return _aliases(kind).get(name.casefold(), name)


@functools.cache
def _aliases(kind: str) -> dict[str, str]:
    """Return other spellings of the names of a kind, each with the name of its entry."""
    text = importlib.resources.files(__name__).joinpath("aliases.toml").read_text("utf-8")
    return dict(tomllib.loads(text).get(kind, {}))


def giving(kind: str, fields: Collection[str], like: str = "") -> str | None:
    """Return a published entry that has the given fields: the nearest to a name, or the first."""
    able = [name for name, written in _published(kind).items() if set(fields) <= set(written)]
    return nearest(like, able) or next(iter(able), None)


@functools.cache
def _published(kind: str) -> dict[str, dict[str, Any]]:
    """Return the entries of a kind as written, one per variant."""
    if kind not in SINGULAR:
        raise unknown("", kind, "part of the catalogue", SINGULAR)
    text = importlib.resources.files(__name__).joinpath(f"{kind}.toml").read_text("utf-8")
    tables = tomllib.loads(text)
    for name, table in tables.items():
        if "base" in table:  # an earlier entry with some of its fields changed
            tables[name] = _changed(tables[table.pop("base")], table)
    tables = {name: table | _missing(kind, table) for name, table in tables.items()}
    return dict(pair for base, table in tables.items() for pair in _variants(base, table))


def _missing(kind: str, table: Mapping[str, Any]) -> dict[str, Any]:
    """Return what an entry of the catalogue leaves to ``UNLESS``."""
    return {key: value for key, value in UNLESS.get(kind, {}).items() if key not in table}


def _changed(written: dict[str, Any], changes: Mapping[str, Any]) -> dict[str, Any]:
    """Return an entry with some fields changed; what goes with another value goes with it."""
    gone = {"hbm_reported"} if "hbm_capacity" in changes else set()
    gone |= {"nics", "nics_per_node"} if {"nics", "nics_per_node"} & set(changes) else set()
    return {key: value for key, value in written.items() if key not in gone} | dict(changes)


def _variants(base: str, table: dict[str, Any]) -> Iterator[tuple[str, dict[str, Any]]]:
    """Yield one system per value of ``fast_domains``; yield any other entry unchanged."""
    domains = table.get("fast_domains", [None])
    for domain in domains:
        pairs = (
            ("fast_domain", domain) if pair[0] == "fast_domains" else pair for pair in table.items()
        )
        variant = dict(pairs)
        if len(domains) > 1:
            variant["title"] += f", fast domain of {domain}"
        yield base if len(domains) == 1 else f"{base}-nvs{domain}", variant


def is_file(name_or_path: str | os.PathLike[str] | Table) -> bool:
    """Return whether an entry is given by a file of the user, not by its name."""
    if not isinstance(name_or_path, str):
        return True  # a path, or a table of a file
    return name_or_path.endswith((".toml", ".json")) or bool({"/", os.sep} & {*name_or_path})


def _written(kind: str, name_or_path: object) -> tuple[str, dict[str, Any]]:
    """Return the origin of an entry, in the user's words, and the entry as written."""
    _published(kind)  # raises for an unknown kind, before anything is read
    if isinstance(name_or_path, Table):
        return name_or_path.where, _overlaid(kind, name_or_path.where, dict(name_or_path.values))
    if not isinstance(name_or_path, str | os.PathLike):
        expected = "expected a name of the catalogue or a TOML file"
        raise refusal(SINGULAR[kind], f"not a name, given {shown(name_or_path)}; {expected}.")
    name = os.fspath(name_or_path)
    if not is_file(name_or_path):
        return name, _by_name(kind, name, "")
    return name, _overlaid(kind, name, read_entry(kind, name))


def base_of(kind: str, name_or_path: str | os.PathLike[str] | Table) -> str | None:
    """Return the published entry that an entry is or changes; None for a file without a base."""
    if isinstance(name_or_path, Table):
        name, written = name_or_path
    else:
        name = os.fspath(name_or_path)
        if not is_file(name_or_path):
            return canonical(kind, name)
        written = read_entry(kind, name)
    base = written.get("base")
    return base_of(kind, _beside(name, base)) if isinstance(base, str) else None


def inner_table(
    name_or_path: str | os.PathLike[str] | Table, key: str
) -> str | os.PathLike[str] | Table:
    """Return a table inside a user's file of a system, or what is given if it has no such table."""
    if isinstance(name_or_path, Table) or not is_file(name_or_path):
        return name_or_path
    inside = read_entry("chips", os.fspath(name_or_path)).get(key)
    return Table(f"{name_or_path}: {key}", inside) if isinstance(inside, dict) else name_or_path


def _beside(name: str, base: str) -> str:
    """Return the base of a user's file: a name, or a file, relative to the folder of the first."""
    return os.path.join(os.path.dirname(name), base) if is_file(base) else base


def _overlaid(
    kind: str, name: str, changes: dict[str, Any], above: tuple[str, ...] = ()
) -> dict[str, Any]:
    """Return an entry of a user's file with the fields of its base; it is that of ``above``."""
    base = changes.pop("base", None)
    if base is None:
        stem = os.path.splitext(os.path.basename(name))[0]
        return {"title": stem, "source": name} | changes
    check_type(base, str, "the name of an entry of the catalogue", f"{name}: base")
    written = _base(kind, name, base, above)
    if "matrix_flops" in changes:
        written.pop("peaks", None)
        written.pop("peaks_source", None)
    texts: dict[str, Any] = {
        "title": f"{written['title']}, changed by {name}",
        "source": f"{name}, over {base}: {written['source']}",
    }
    if "note" in written:  # it may be about a value that the file changes
        texts["note"] = f"Of {base} as published: {written['note']}"
    if "taken" in written:  # what a config.json says of a field that the file changes
        texts["taken"] = {key: of for key, of in written["taken"].items() if key not in changes}
    peaks = changes.get("peaks")
    if isinstance(peaks, dict):
        changes["peaks"] = written.get("peaks", {}) | peaks
    return _changed(written | texts, changes)


def _base(kind: str, name: str, base: str, above: tuple[str, ...]) -> dict[str, Any]:
    """Return the entry that a user's file changes: a published one, or that of another file."""
    if not is_file(base):
        return _by_name(kind, base, f"{name}: base")
    place, known = _beside(name, base), (*above, os.path.realpath(name))
    if os.path.realpath(place) in known:
        raise refusal(f"{name}: base", f"{base}: changes this file itself; expected another")
    return _overlaid(kind, place, read_entry(kind, place), known)


def _by_name(kind: str, name: str, where: str) -> dict[str, Any]:
    """Return a copy of a published entry as written."""
    published = _published(kind)
    name = canonical(kind, name)
    if name in published:
        return copy.deepcopy(published[name])
    fabrics = _published("fabrics") if kind == "systems" else {}
    if name in fabrics and "system" not in fabrics[name]:
        said = f"a fabric whose system is not here; expected a system, and fabric={name} beside it"
        raise refusal(where or name, said)
    if name in fabrics:  # its usual system, with its network
        about = {key: fabrics[name][key] for key in ("title", "source")}
        return _by_name(kind, fabrics[name]["system"], where) | about | {"fabric": name}
    # The bare name of a system with variants, or an unknown variant: the error lists the variants.
    stem = name.casefold().partition("-nvs")[0]
    variants = [known for known in published if known.startswith(f"{stem}-")]
    if f"{stem}-nvs" in " ".join(variants) and name.casefold() not in variants:
        expected = f"expected one of {', '.join(variants)}"
        raise refusal(where, f"{name}: no such {SINGULAR[kind]}; {expected}.")
    other, problem = TAKEN_FOR.get(kind, (kind, ""))
    if name in _published(other):
        like = nearest(name, published) or next(iter(published))
        raise refusal(where, f"{name}: {problem}, such as {like!r}.")
    raise unknown(where, name, SINGULAR[kind], [*published, *fabrics])


def _check_complete(
    kind: str,
    where: str,
    written: dict[str, Any],
    fields: Mapping[str, str],
    optional: Collection[str] | None,
    choices: Collection[str],
) -> None:
    """Raise for an entry with a key that is not allowed, or without a required field."""
    allowed = [*fields, *choices, *TEXTS[:3], "base", *ALSO.get(kind, [])]
    for key in written:
        if key not in allowed:
            raise unknown(where, key, f"field of {SINGULAR[kind].capitalize()}", allowed)
    published = _published(kind)
    if optional is None:
        optional = {name for name in fields if any(name not in p for p in published.values())}
    missing = [name for name in fields if name not in written and name not in optional]
    if missing:
        base = next(iter(published))
        remedy = f"a value, or a published entry to change, such as base = '{base}'"
        raise refusal(where, f"{', '.join(missing)}: missing; expected {remedy}.")


# ---- Files of the user --------------------------------------------------------------------------


def read_entry(kind: str, path: str) -> dict[str, Any]:
    """Return the table of a user's TOML file, or a model from a ``config.json``."""
    expected = f"expected a TOML file of one {SINGULAR[kind]}"
    expected += " or a config.json" * (kind == "architectures")
    try:
        text = pathlib.Path(path).read_bytes().decode("utf-8-sig")
    except OSError as error:
        known = {FileNotFoundError: "no such file", IsADirectoryError: "a directory"}
        said = known.get(type(error), f"cannot be read ({error.strerror})")
        raise refusal(path, f"{said}; {expected}.") from None
    except UnicodeDecodeError as error:
        raise refusal(path, f"not UTF-8 text at byte {error.start}; {expected}.") from None
    if path.endswith(".json"):
        if kind != "architectures":
            raise refusal(path, f"a whole model, if anything; {expected}.")
        return huggingface.entry(path, text)
    try:
        return tomllib.loads(text)
    except (ValueError, RecursionError) as error:
        raise refusal(path, f"not TOML: {error}; {expected}.") from None


def check_type(value: object, kind: type, meaning: str, where: str) -> None:
    """Raise for a value of another type."""
    if not isinstance(value, kind):
        raise refusal(where, f"not {meaning}, given {shown(value)}; expected {meaning}.")


def read_peaks(written: object, where: str) -> dict[str, float]:
    """Return the peak rate of each native number format in FLOP/s."""
    if not isinstance(written, dict):
        expected = "expected a table of rates by number format, such as { bf16 = '312 TFLOP/s' }"
        raise refusal(where, f"not a table, given {shown(written)}; {expected}.")
    peaks = {}
    for name, rate in written.items():
        if name not in FORMATS:
            raise unknown(where, name, "number format", FORMATS)
        peaks[name] = units.parse(rate, "FLOP/s", f"{where}.{name}")
        if peaks[name] <= 0.0:
            expected = "expected a positive rate, or no entry where the format is not native"
            raise refusal(f"{where}.{name}", f"out of range, given {shown(rate)}; {expected}.")
    return peaks
