"""Write measured runs as the rows that ``jaxroof validate`` reads.

python -m tools.rows.convert                         all rows of jaxroof/validation/data
python -m tools.rows.convert steps RUNS.csv OUT.csv  one file in the common schema, of step times
python -m tools.rows.convert memory RUNS.csv OUT.csv the same, of memory
python -m tools.rows.serving argonne.csv OUT.csv     servers, a file named as one of raw/serving
"""

import csv
import functools
import gzip
import io
import pathlib
import sys
import types
from collections.abc import Callable

from jaxroof.errors import InputError
from jaxroof.estimators.training.inputs import layers_by_part
from jaxroof.estimators.training.step import training
from jaxroof.records import get_at
from jaxroof.settings import known_paths
from jaxroof.validation.rows import on_system
from tools.rows.amd import amd_settings, amd_step
from tools.rows.common import Row, Settings, read
from tools.rows.memory import measured_memory, memory_settings
from tools.rows.serving import servers
from tools.rows.steps import chip_of, measured_step, step_settings
from tools.rows.tpu import converted_here, generation, tpu_settings, tpu_step

RAW = pathlib.Path(__file__).parent / "raw"
ROWS = pathlib.Path(__file__).parents[2] / "jaxroof" / "validation" / "data"
FIRST = (
    *("id", "#source", "#model", "#machine", "#chip", "#group", "#refused", "#kind", "#stage"),
    *("#filled", "#recipe"),
)
CHIPS = {"A100": "A100 80", "H800": "H100"}  # kinds of accelerators whose rows are scored together
OTHERS: dict[str, tuple[Callable, ...]] = {  # folders of raw rows of other chips, all of steps
    "tpu": (lambda row: f"TPU {generation(row)}", tpu_settings, tpu_step),
    "amd": (lambda row: row.cells.get("system", ""), amd_settings, amd_step),
}
MEASURES: dict[str, tuple[Callable[[Row], Settings], Callable[[Row], Settings]]] = {
    "steps": (step_settings, measured_step),
    "memory": (memory_settings, measured_memory),
}


def converted(rows: list[Row], of: str) -> str:
    """Return rows in the common schema as rows of inputs: CSV, the columns that some row needs."""
    lines = [_line(row, *MEASURES[of]) for row in rows]
    names = dict.fromkeys(name for line in lines for name in line)
    kept = [n for n in names if any(line[n] != _usual(n) for line in lines if n in line)]
    kept.sort(key=lambda name: FIRST.index(name) if name in FIRST else len(FIRST))
    written = io.StringIO()
    table = csv.DictWriter(written, kept, extrasaction="ignore", lineterminator="\n")
    table.writeheader()
    for line in lines:
        usual = {name: _usual(name) for name in kept} | _layers(line) | _machine(line, kept)
        filled = line if line["#refused"] else usual | line
        table.writerow({name: _cell(value) for name, value in filled.items()})
    return written.getvalue()


def _line(row: Row, settings: Callable[[Row], Settings], measured: Callable) -> Settings:
    """Return the inputs of a row with its names, or the reason why it has none."""
    cells = row.cells
    notes = {"#source": "source", "#model": "model", "#machine": "system", "#group": "split_group"}
    line: Settings = {"id": cells["row_id"]}
    line |= {name: cells.get(column, "") for name, column in notes.items()}
    line |= {"#chip": "", "#refused": ""}
    try:
        kind = chip_of(row)
        line["#chip"] = CHIPS.get(kind, kind)
    except InputError:  # rows of memory have others too
        pass
    try:
        return line | settings(row) | measured(row)
    except InputError as error:
        return line | {"#refused": str(error)}


@functools.cache
def _usual(name: str) -> float | str | None:
    """Return what an input is where no column says it; notes are blank."""
    if name.startswith("#"):
        return ""
    choices = {n: getattr(one, "value", one) for n, one in vars(training.recipe).items()}
    if name in choices:
        return choices[name]
    if name == "lora_rank":
        return 0.0  # beside rows with adapters
    field = known_paths(training.inputs).get(name)
    return None if field is None else field.metadata.get("default")


def _layers(line: Settings) -> Settings:
    """Return the numbers of layers that follow from others where a row does not say them."""
    paths = {path.removeprefix("model."): path for path in known_paths(training.inputs)}
    model = {name: line.get(path, _usual(path)) for name, path in paths.items()}
    if model["layers"] is None:
        return {}
    return {f"model.{n}": v for n, v in layers_by_part(types.SimpleNamespace(**model)).items()}


def _machine(line: Settings, names: list[str]) -> Settings:
    """Return numbers of a row's machine that only other rows say, as the catalogue has them."""
    paths = [n for n in names if n.startswith("system.") and _usual(n) is None and n not in line]
    if not paths or "system" not in line:
        return {}
    system = on_system(line["system"])
    return {name: get_at(system, name.removeprefix("system.")) for name in paths}


def _cell(value: float | str | None) -> str:
    if isinstance(value, str) or value is None:
        return value or ""
    return repr(float(value)).removesuffix(".0")


def packaged() -> dict[str, str]:
    """Return the text of every packaged file, by its place below ``ROWS``."""
    found = {}
    for path in sorted(RAW.glob("*/*.csv.gz")):
        if path.parent.name == "serving":
            found[f"serving/{path.name}"] = servers(path)
            continue
        if path.parent.name in OTHERS:
            found[f"steps/{path.name}"] = converted_here(read(path), *OTHERS[path.parent.name])
            continue
        for of in path.parent.name.split("+"):
            found[f"{of}/{path.name}"] = converted(read(path), of)
    return found


def main(given: list[str]) -> None:
    """Convert all packaged rows, or those of one file."""
    if given:
        of, runs, output = given
        pathlib.Path(output).write_text(converted(read(pathlib.Path(runs)), of), encoding="utf-8")
        return
    for name, text in packaged().items():
        path = ROWS / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(gzip.compress(text.encode(), mtime=0))


if __name__ == "__main__":
    main(sys.argv[1:])
