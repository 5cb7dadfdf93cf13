"""The command `jaxroof list`: what the catalogue holds, and what can be asked."""

import re
from collections.abc import Mapping, Sequence
from typing import Any

import click

from jaxroof.cli import completion
from jaxroof.cli.printing import page_width, print_entries, print_wrapped

STUDIES = re.compile(  # systems that one study describes: variants of chips, behind --all
    r".*-(book|sheet|unfused|flat|next|real|[ab]|sxm5.*|pod.*|nvs4|nvs64)|tpu-v3|a100-nvs8"
)
OF = "; of --estimator published"  # what the models of the study are asked with
NAME = 18  # characters of the longest name
HEADINGS = {"studies": "Shapes of published studies"}  # of families
MODELS_NOTE = "`jaxroof show NAME` prints the layers of a model by kind, and where it comes from."
CHIPS = ("ampere", "hopper", "blackwell", "cdna3", "cdna4", "tpu")  # of software that serves
EXAMPLES = 4  # names shown per kind in the list of all kinds
COLUMNS = {"TFLOP/s": 7, "GB": 5, "GB/s": 7, "domain": 6}  # of the list, and how wide each is
NARROW = (
    ("domain",),
    ("GB/s", "domain"),
    ("GB", "GB/s", "domain"),
    (*COLUMNS,),
)  # left out one after another
NOTES = (
    "TFLOP/s: matrix products; GB: memory by its label (a training step fills what the device "
    "reports); GB/s: of memory; domain: accelerators on fast links.",
    "training: a step of a model of today (search, compare, pareto, explain, layers, schedule); "
    "published: the same by the study's model; roofline: one operator; torus: its collectives; "
    "limits: of scaling.",
    "`jaxroof show NAME` prints all fields of a system, and where they come from.",
)


@click.command(name="list", short_help="List what the catalogue holds, and what can be asked.")
@click.argument(
    "kind",
    metavar="[KIND]",
    default="",
    shell_complete=completion.kinds,
)
@click.option("--all", "every", is_flag=True, help="Systems and models of single studies too.")
def command(kind: str, every: bool) -> None:
    """List one kind of the catalogue's entries, or what can be asked; alone, list the kinds."""
    from jaxroof import catalog

    if not kind:
        _list_kinds()
        return
    if kind == "estimators":
        from jaxroof.estimators.questions import QUESTIONS

        print_entries([*QUESTIONS.items()])
        return
    if kind == "systems":
        click.echo("\n".join([*_systems(page_width(), every), ""]))
        for note in NOTES:
            print_wrapped(note)
        _more(sum(map(_of_a_study, catalog.names(kind))), kind, every)
        return
    if kind == "models":
        _families()
    for name in catalog.names(kind) if kind != "models" or every else ():
        entry = catalog.describe(kind, name)
        said = f"{entry['title']}: {_summary(entry)}{OF * (kind == 'models')}"
        print_entries([(f"{name:<{NAME}}", said)])
    if kind == "models":
        print_wrapped(MODELS_NOTE)
        _more(len(catalog.names("models")), kind, every)


def _families() -> None:
    """Print the models of today by family, in the order of the catalogue: newest first."""
    from jaxroof import catalog

    names = catalog.names("architectures")
    entries = {name: catalog.describe("architectures", name) for name in names}
    wide = max(map(len, names))
    for family in dict.fromkeys(entry["family"] for entry in entries.values()):
        click.echo(HEADINGS.get(family, family))
        for name, entry in entries.items():
            if entry["family"] == family:
                print_entries([(f"  {name:<{wide}}  {entry['released']}", entry["title"])])
        click.echo()


def _more(count: int, kind: str, every: bool) -> None:
    """Say that there are more entries of a kind, unless they are shown."""
    if not every:
        print_wrapped(f"jaxroof list {kind} --all: {count} more, of single studies.")


def _of_a_study(name: str) -> bool:
    """Return whether a system is a variant that one study describes."""
    known = name.startswith(("gb", "rtx")) and not name.endswith(("book", "nvs64"))
    return not known and STUDIES.fullmatch(name) is not None


def _list_kinds() -> None:
    """Print the kinds that can be listed, with the count and the first names of each."""
    from jaxroof import catalog, estimators

    kinds = {kind: catalog.names(kind) for kind in ("models", *catalog.OTHERS)}
    kinds["models"] = tuple(name for kind in catalog.MODELS for name in catalog.names(kind))
    kinds["estimators"] = estimators.names()
    print_entries([(kind, f"{len(some)}: {_first(some)}") for kind, some in kinds.items()])
    print_wrapped("All of a kind: jaxroof list systems. One of them: jaxroof show b200-nvs8.")


def _first(names: Sequence[str]) -> str:
    """Return the first of some names."""
    return ", ".join([*names[:EXAMPLES], *["..."] * (len(names) > EXAMPLES)])


def _summary(entry: dict[str, Any]) -> str:
    if "note" in entry and {"formulas", "shared", "believed"} & {*entry}:
        return str(entry["note"])  # of software, or of constants
    if "usual" in entry:
        return "no data"
    kinds = [one for one in CHIPS if one in entry]
    if kinds:  # software that serves
        return "measured on " + ", ".join(kinds)
    if "software" in entry:  # a dispatcher
        return ", ".join(name for name, value in entry["software"].items() if value) or "no flags"
    if "sizes" in entry:  # a fabric
        over = [
            f"{one:g}:1 above tier {k}"
            for k, one in enumerate(entry.get("oversubscription", ())[1:])
            if one > 1
        ]
        sizes = " < ".join(f"{size:,}" for size in entry["sizes"])
        return ", ".join([f"domains of {sizes}", *over, entry["source"]])
    fields = ("layers", "hidden", "heads", "experts", "sequence")
    return ", ".join(f"{field} {entry[field]}" for field in fields if field in entry)


def _systems(width: int, every: bool) -> list[str]:
    """Return the lines of a table: the rates of each system, and the questions it can answer.

    Those that answer most come first. Columns for which a page of that width has no room are left
    out.
    """
    from jaxroof import catalog

    names = [name for name in catalog.names("systems") if every or not _of_a_study(name)]
    rows = sorted(map(_row, names), key=lambda row: "training" not in row["answers"])
    for left_out in ((), *NARROW):
        shown = [name for name in COLUMNS if name not in left_out]
        lines = [_line(row, shown) for row in ({"system": "system", "answers": "answers"}, *rows)]
        if max(map(len, lines)) <= width:
            break
    return lines


def _row(name: str) -> dict[str, str]:
    from jaxroof import catalog
    from jaxroof.catalog.needs import answers

    written = catalog.describe("systems", name)
    return {
        "system": name,
        "TFLOP/s": _in(1e12, written["matrix_flops"], "FLOP/s"),
        "GB": _in(1e9, written.get("hbm_capacity"), "B", 4),
        "GB/s": _in(1e9, written["hbm_bandwidth"], "B/s"),
        "domain": _in(1.0, written.get("fast_domain"), "1"),
        "answers": ", ".join(answers(name)),
    }


def _line(row: Mapping[str, str], shown: Sequence[str]) -> str:
    numbers = (f"{row.get(name, name):>{COLUMNS[name]}}" for name in shown)
    return "  ".join([f"{row['system']:<16}", *numbers, row["answers"]])


def _in(unit: float, written: Any, si: str, digits: int = 7) -> str:
    """Return a number as written, converted to a larger unit; a dash if there is none."""
    from jaxroof.units import parse

    return "-" if written is None else f"{parse(written, si) / unit:.{digits}g}"
