"""Tables and sentences at the width of their page, from 60 columns on."""

import fcntl
import io
import os
import re
import struct
import subprocess
import sys
import termios

import numpy as np
import pytest
from daily import daily
from hypothesis import example, given, settings
from hypothesis import strategies as st
from places import ROOT
from rich.console import Console

from jaxroof import catalog
from jaxroof.cli import printing
from jaxroof.cli.deliver import print_text
from jaxroof.units import JOIN, unbroken
from jaxroof.views.text.layout import PlainTable, evenly, wrapped
from jaxroof.views.text.rows import ERROR, rows_table

WIDTHS = (60, 72, 80, 100, 120, 160)
MACHINE = "--estimator published --model gpt3-1t --system h200-nvs4"
QUESTION = f"{MACHINE} --gpus 2048 --batch 4096"

DRAWS = """
samples = 16
[distributions]
"system.fast_efficiency" = [0.5, 0.9]
"system.matrix_efficiency" = { from = 0.6, to = 0.9, shape = "triangular", peak = 0.8 }
"""
DESIGN = """
title = "A part"
estimator = "published"
model = "gpt3-1t"
system = "b200-nvs8"
plan = { gpus = 64, global_batch = 64 }
minimise = "training_days"
[price]
"system.matrix_flops" = { price = 12_000, per = "2.5 PFLOP/s" }
"system.hbm_capacity" = { price = 9_600, per = "192 GB" }
[bounds]
"system.matrix_flops" = ["1 PFLOP/s", "5 PFLOP/s"]
"system.hbm_capacity" = ["150 GB", "1 TB"]
"""
START = """
title = "A sweep"
estimator = "published"
model = "gpt3-1t"
system = "h200-nvs4"
plan = { gpus = 2048, global_batch = 4096 }
"""
GRID = START + (
    '[axes]\n"system.hbm_capacity" = { from = "141 GB", to = "384 GB", count = 3 }\n'
    '"system.slow_bandwidth" = { from = "10 GB/s", to = "400 GB/s", count = 12 }\n'
)


def page(width: int) -> Console:
    """Return a terminal of a width that remembers what it was shown."""
    return Console(width=width, file=io.StringIO(), force_terminal=True, color_system=None)


def lines(console: Console) -> list[str]:
    return console.file.getvalue().splitlines()


def fits(found: list[str], width: int) -> bool:
    """Return whether lines keep to a width, without blanks at their ends or an ellipsis."""
    widest = max(map(len, found), default=0)
    return widest <= width and all(line == line.rstrip() and "…" not in line for line in found)


@pytest.fixture
def shown(jaxroof, monkeypatch):
    """Run a command once; return what it printed, to print it again at any width."""

    def run(line: str) -> list:
        found = []

        def record(self, *objects, **options):
            if not self.stderr:
                found.extend(objects)

        with monkeypatch.context() as patch:
            patch.setattr(Console, "print", record)
            said = jaxroof(line)
        assert said.code in (0, 1), said.err
        return found

    return run


def at(width: int, printed: list) -> list[str]:
    console = page(width)
    for one in printed:
        if isinstance(one, str):
            print_text(console, one)
        else:
            console.print(one)
    return lines(console)


COMMANDS = [
    f"search {QUESTION} --split context --mine tp=8,pp=8",
    f"search {MACHINE} --gpus 8,1024,2048 --batch 4096 --split summa",
    "search --estimator published "
    "--model gpt3 --system a100-nvs4 --gpus 64 --batch 64 --uncertain draws.toml",
    "search --estimator published "
    "--model gpt3 --system a100-nvs4 --gpus 8,64 --batch 64 --uncertain draws.toml",
    "compare --estimator published --model gpt3 --gpus 64 --batch 64 --system a100-nvs4",
    f"pareto {QUESTION}",
    f"pareto {MACHINE} --gpus 512,8192 --batch 4096 --split summa --days 25",
    f"explain {QUESTION}",
    f"layers {MACHINE} --plan dp=64,tp=4,pp=8,microbatch=1",
    "roofline --op matmul --shape B=256,D=4096,F=16384 --dtypes bf16 "
    "--system tpu-v5e-book,h100-sxm,a100-book,b200-book,tpu-v5p-book,tpu-v6e-book",
    "roofline --op matmul --shape D=4096,F=16384 --dtypes bf16 "
    "--system tpu-v5e-book,h100-sxm,a100-book,b200-book,tpu-v5p-book --sweep B=1:512 -o roof.json",
    f"schedule {MACHINE} --plan dp=64,tp=4,pp=8,microbatch=1",
    "design design.toml",
    "show matmul",
    "run grid.toml",
    f"run {ROOT / 'sweeps' / 'mlp_dhp.toml'}",
]


@pytest.mark.parametrize("command", daily(COMMANDS, *range(len(COMMANDS) - 1)))
def test_every_command_keeps_to_the_width_of_its_terminal(command, shown, tmp_path):
    """Columns that are not optional, and what wraps, are there in full at every width."""
    for name, text in {
        "draws": DRAWS,
        "design": DESIGN,
        "grid": GRID,
    }.items():
        (tmp_path / f"{name}.toml").write_text(text, encoding="utf-8")
    printed = shown(command)
    assert printed
    for width in WIDTHS:
        found = at(width, printed)
        assert fits(found, width), width
        text = " ".join(" ".join(found).split())
        for table in (one for one in printed if isinstance(one, PlainTable)):
            for cell in always(table):
                assert cell in text, (width, cell)


def always(table: PlainTable) -> set[str]:
    """Return the words of the cells that must be there."""
    kept = zip(table.columns, table.optional, strict=True)
    cells = (str(cell) for column, soon in kept if not soon for cell in (*column.cells,))
    return {word for cell in cells for word in cell.split()}


PLANS = [
    f"search {QUESTION}",
    f"search {QUESTION} --split context",
    f"search {QUESTION} --split summa",
    f"search {MACHINE} --gpus 1024,2048 --batch 4096",
]
HEADS = ("#", "gpus", "dp", "tp", "cp", "pp", "micro-\nbatch", "step\ntime")


@pytest.mark.parametrize("command", PLANS)
def test_the_plan_and_the_step_time_are_in_every_row(command, shown):
    printed = shown(command)
    table = next(one for one in printed if isinstance(one, PlainTable))
    rows = zip(*(c.cells for c in table.columns if c.header in HEADS), strict=True)
    patterns = [r"\s+(?:\S+\s+)*".join(map(re.escape, row)) for row in rows]
    for width in WIDTHS:
        found = at(width, printed)
        rule = next(i for i, line in enumerate(found) if set(line.strip()) == {"─"})
        for pattern, line in zip(patterns, found[rule + 1 :], strict=False):
            assert re.match(rf"\s*{pattern}(\s|$)", line), width


def test_a_terminal_of_80_columns_shows_the_plan():
    """In a process of its own, under a real terminal."""
    shell, program = os.openpty()
    fcntl.ioctl(program, termios.TIOCSWINSZ, struct.pack("HHHH", 24, 80, 0, 0))
    given = {name: value for name, value in os.environ.items() if name != "COLUMNS"}
    done = subprocess.Popen(
        [sys.executable, "-m", "jaxroof", "search", *QUESTION.split()],
        env={**given, "PYTHONPATH": str(ROOT), "NO_COLOR": "1", "TERM": "xterm"},
        stdout=program,
        stderr=subprocess.DEVNULL,
    )
    os.close(program)
    said = b""
    while True:
        try:
            said += os.read(shell, 4096)
        except OSError:  # the program has closed its end
            break
    assert done.wait() == 0
    os.close(shell)
    text = re.sub(r"\x1b\[[0-9;]*m", "", said.decode())
    found = text.replace("\r\n", "\n").splitlines()
    assert fits(found, 80)
    assert "#  dp  tp   pp  mb" in text
    assert "1  16   4   32   1         4x1x1  39.98 s" in text


# ---- Tables of any content ----------------------------------------------------------------------

TEXTS = st.text("abcdefghij 0123456789.%\n", max_size=40)
COLUMNS = st.lists(
    st.tuples(TEXTS, st.booleans(), st.integers(0, 4), st.booleans()), min_size=1, max_size=14
)


@settings(max_examples=60, deadline=None)
@given(st.data(), COLUMNS, st.integers(60, 170))
def test_any_table_fits_any_page(data, columns, width):
    count = data.draw(st.integers(0, 4))
    rows = [[data.draw(TEXTS) for _ in columns] for _ in range(count)]
    table = PlainTable(data.draw(st.none() | st.text("[]ab ", min_size=1, max_size=200)))
    for head, right, optional, stays in columns:
        justify = "right" if right else "left"
        table.add_column(head, justify=justify, no_wrap=stays, optional=optional)
    for row in rows:
        table.add_row(*row)
    console = page(width)
    console.print(table)
    assert fits(lines(console), width)
    text = " ".join(" ".join(lines(console)).split())
    for cell in always(table):
        assert cell in text


def a_table() -> PlainTable:
    table = PlainTable()
    table.add_column("operation", no_wrap=True)
    table.add_numbers("time\nspent", "FLOP", "bytes")
    table.add_numbers("kept", optional=1)
    table.add_numbers("sent", "sent\nback", optional=2)
    for name in ("qkv", "fc1"):
        table.add_row(name, "1.5 s", "2 TFLOP", "3 GB", "4 MB", "5 kB", "6 kB")
    return table


def test_optional_columns_go_first_those_of_a_number_together():
    assert "sent" in lines_of(a_table(), 60)[2]
    found = lines_of(a_table(), 45)
    assert found[1].split() == ["time"]
    assert found[2].split() == ["operation", "spent", "FLOP", "bytes", "kept"]
    assert found[-2] == "Not shown at this width: sent, sent back."


def test_then_columns_go_on_below_with_the_first_of_them():
    found = lines_of(a_table(), 24)
    heads = [line.split() for line in found if "operation" in line]
    assert heads == [["operation", "spent"], ["operation", "FLOP"], ["operation", "bytes"]]


def lines_of(table: PlainTable, width: int) -> list[str]:
    console = page(width)
    console.print(table)
    return lines(console)


def test_columns_of_an_axis_thin_out_evenly():
    table = PlainTable()
    table.add_column("size", no_wrap=True)
    for point, optional in enumerate(evenly(9)):
        table.add_numbers(f"point {point}", optional=optional)
    assert lines_of(table, 160)[1].count("point") == 9
    assert lines_of(table, 60)[1].split()[2::2] == ["0", "2", "4", "6", "8"]
    assert lines_of(table, 40)[1].split()[2::2] == ["0", "4", "8"]


# ---- Sentences ----------------------------------------------------------------------------------


@settings(max_examples=100, deadline=None)
@example(["1.5 GB/s"] * 8)
@given(st.lists(st.sampled_from(["dp 16 pp 4", "1.5 GB/s", "80 %", "of the", "more,", "20 us"])))
def test_a_sentence_breaks_between_words_and_not_before_a_unit(words):
    text = " ".join(words)
    found = wrapped(page(60), text, 60)
    assert " ".join(found) == text
    assert fits(found, 60)
    assert not any(re.match(r"(GB/s|%|us|\d+ pp)\b", line) for line in found)


def test_words_longer_than_a_line_are_folded():
    assert wrapped(page(10), "x" * 25, 10) == ["x" * 10, "x" * 10, "x" * 5]


def test_a_number_keeps_its_unit_and_its_word():
    found = unbroken("at 5 GB/s, 12.5 % of 3 plans: -2 % of B = 1").split(" ")
    together = ["at 5 GB/s,", "12.5 %", "of 3", "plans:", "-2 %", "of", "B", "= 1"]
    assert [words.replace(JOIN, " ") for words in found] == together


def test_a_sentence_to_a_pipe_is_one_line():
    console = Console(width=160, file=io.StringIO())
    print_text(console, "word " * 100)
    assert lines(console) == [" ".join(["word"] * 100)]


@pytest.mark.parametrize("width", WIDTHS)
@pytest.mark.parametrize("kind", ["systems --all", "models --all", "estimators"])
def test_a_list_wraps_below_its_texts(kind, width, jaxroof, monkeypatch):
    monkeypatch.setenv("COLUMNS", str(width))
    monkeypatch.setattr(printing.sys.stdout, "isatty", lambda: True)
    said = jaxroof(f"list {kind}")
    assert fits(said.out.splitlines(), width)
    if kind == "systems --all":  # a table
        assert all(name in said.out for name in (*catalog.names("systems"), "training, published"))
    elif kind == "models --all":  # by family
        assert all(name in said.out for name in catalog.names("architectures"))
    else:
        starts = {len(re.match(r"(\S+)?\s+", line)[0]) for line in said.out.splitlines() if line}
        assert len(starts) == 1


# ---- Tables that choose their columns by themselves ---------------------------------------------


@pytest.mark.parametrize("width", WIDTHS)
def test_rows_keep_to_the_width_they_are_given(width):
    headings = ["id", "model", "system", "system.hbm_capacity [GB]", "global_batch", "dp", "tp"]
    typed = [["the one that was searched", "gpt3-1t", "h200-nvs4", "141", "4096", "16", "4"]] * 2
    answer = {"step_time": 39.98, "throughput": 102.46, "memory": 1e11, "feasible": np.bool_(True)}
    for wrong in (answer, {ERROR: "line 3, dp: 'x' is not a finite number, given 'x'"}):
        table = rows_table(headings, typed, [answer, wrong], {"step_time": "s"})
        found = lines_of(table, width)
        assert fits(found, width)
        assert "39.98 s" in " ".join(found)
        assert "true" in " ".join(found)
