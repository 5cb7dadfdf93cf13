"""What all pictures share: colours, axes in powers of two, units on labels, what does not fit."""

import functools
import io
import re
import textwrap
from collections.abc import Callable, Iterable, Sequence
from typing import Any, ParamSpec

import matplotlib as mpl
import numpy as np
import xarray as xr
from matplotlib.axes import Axes
from matplotlib.axis import Axis
from matplotlib.figure import Figure
from matplotlib.patches import Patch, Rectangle
from matplotlib.ticker import FixedLocator, FuncFormatter, LogLocator, NullLocator
from PIL import Image

from jaxroof.analyses.result_metadata import label_of, parts_of
from jaxroof.views.plots import colours

Given = ParamSpec("Given")

BLUE: str = colours.BLUE
VERMILION: str = colours.VERMILION
GREEN: str = colours.GREEN
PURPLE: str = colours.PURPLE
ORANGE: str = colours.ORANGE
SKY: str = colours.SKY
BLACK: str = colours.BLACK
GREY: str = colours.GREY
BROWN: str = colours.BROWN
PALE: str = colours.PALE
COLOURS = (VERMILION, GREEN, BLUE, PURPLE, ORANGE, SKY, BLACK, GREY)
DASHES: tuple[Any, ...] = (":", "--", "-", "-.", (0, (1, 4)), (0, (8, 2)))
MARKERS = ("o", "s", "^", "D", "v", "P")
PARTS = (BLUE, SKY, VERMILION, GREEN, PURPLE, ORANGE, GREY, BROWN, BLACK, PALE)  # of no meaning
UNFIT: dict[str, Any] = {
    "facecolor": "#F2F2F2",
    "edgecolor": "#B0B0B0",
    "hatch": "//",
    "linewidth": 0.0,
}
BARRED: dict[str, Any] = {**UNFIT, "facecolor": "#E4DCEB", "edgecolor": "#9A86AC", "hatch": "xx"}
KEPT = "\u00a0"  # a space at which no line ends
UNIT = re.compile(r"(?<=\d) (?=[A-Za-z%])|(?<=\bx) (?=\d)|(?<=\d) (?=x )")
PREFIXES = {15: "P", 12: "T", 9: "G", 6: "M", 3: "k", 0: ""}
VECTORS = 1_500_000  # bytes of vector graphics in a page; a picture of more is in dots
DOTS = 150  # pixels an inch
WIDE = 8.0  # inches
HIGH = 4.5  # inches: with the width, the shape of a slide
TEXT = 11.0  # points of the smallest letters
LINE = 1.25  # height of a line of words, of the size of its letters
HEAD, TITLE = 11.5, 12.5  # points of the title, and of what is found
WRAP, WRAP_BOLD = 86, 70  # letters in a line of them
LEGEND = 92  # letters in a line of a legend
MARGIN = 7.0  # points above the title
TYPE: Any = {
    "font.size": TEXT,
    "axes.titlesize": TEXT,
    "axes.labelsize": TEXT,
    "xtick.labelsize": TEXT,
    "ytick.labelsize": TEXT,
    "legend.fontsize": TEXT,
    "legend.title_fontsize": TEXT,
    "legend.handlelength": 1.6,
    "hatch.linewidth": 0.6,
    "svg.hashsalt": "jaxroof",  # the same picture is the same text
}


def parts(data: xr.Dataset, whole: str) -> dict[str, tuple[str, str]]:
    """Return the parts of a result, or where it has none the result itself: words, colour."""
    names = parts_of(data, whole) or [whole]
    words = {name: label_of(data, name) for name in names}
    own = colours.colours_of(words.values())
    return {name: (said, own[said]) for name, said in words.items()}


def drawn(picture: Callable[Given, Figure]) -> Callable[Given, Figure]:
    """Make a function draw its picture with the letters that all pictures have."""

    @functools.wraps(picture)
    def with_type(*args: Given.args, **more: Given.kwargs) -> Figure:
        with mpl.rc_context(TYPE):
            return picture(*args, **more)

    return with_type


def png_of(figure: Figure, **more: Any) -> bytes:
    """Return a picture as a PNG file of 256 colours: it looks the same, in a third of the bytes."""
    drawn, few = io.BytesIO(), io.BytesIO()
    figure.savefig(drawn, format="png", **more)
    with Image.open(drawn) as every:
        apart = every.info["dpi"]  # dots an inch, which the palette would lose
        every.convert("RGB").quantize(256).save(few, format="PNG", optimize=True, dpi=apart)
    return few.getvalue()


def embedded(figure: Figure) -> tuple[str, bytes]:
    """Return a picture as (media type, content) for a page: vectors where these are small."""
    stream = io.BytesIO()
    with mpl.rc_context({"svg.hashsalt": "jaxroof"}):  # the same picture is the same text
        figure.savefig(stream, format="svg", metadata={"Date": None, "Creator": None})
    if stream.tell() <= VECTORS:
        return "image/svg+xml", stream.getvalue()
    return "image/png", png_of(figure, dpi=200)


class Picture(Figure):
    """A figure that a notebook shows by itself, without any setting up."""

    def draw(self, renderer: Any) -> None:
        """Draw with the letters that all pictures have: some are made only now."""
        with mpl.rc_context(TYPE):
            super().draw(renderer)

    def _repr_png_(self) -> bytes:
        return png_of(self)


def figure(title: str, finding: str = "", height: float = HIGH) -> Figure:
    """Return an empty figure under its title and, in bold, what the picture finds."""
    made = Picture(figsize=(WIDE, height), dpi=DOTS)
    said, found = wrapped(title, WRAP), wrapped(finding, WRAP_BOLD)
    top = 1.0 - MARGIN / (72 * height)
    look: dict[str, Any] = {"ha": "left", "va": "top", "in_layout": False, "linespacing": LINE}
    made.suptitle(said, x=0.012, y=top, fontsize=HEAD, color="#444444", **look)
    top -= _tall(said, HEAD) / (72 * height)
    if found:
        made.text(0.012, top, found, fontsize=TITLE, weight="bold", **look)
        top -= _tall(found, TITLE) / (72 * height)
    made.set_layout_engine("constrained", rect=(0.0, 0.0, 1.0, top))
    return made


def panels(
    title: str, finding: str, count: int, high: float, across: int = 2, **more: Any
) -> tuple[Figure, list[Axes]]:
    """Return a figure of some panels, ``across`` in a row, and its panels."""
    across = min(across, count)
    down = -(-count // across)
    made = figure(title, finding, max(HIGH, 1.4 + high) if down == 1 else 1.4 + high * down)
    cells = made.subplots(down, across, squeeze=False, **more).ravel().tolist()
    for spare in cells[count:]:
        spare.remove()
    return made, cells[:count]


def _tall(words: str, size: float) -> float:
    """Return how high lines of words are, in points, with a gap below."""
    return 1.15 * LINE * size * (words.count("\n") + 1) + 2.0 if words else 0.0


def wrapped(words: str, letters: int) -> str:
    """Return words in lines of so many letters; numbers stay beside their units.

    >>> wrapped("best: 4 x 4 x 1, 55,313 samples/s, 28 % more", 30)
    'best: 4 x 4 x 1,\\n55,313 samples/s, 28 % more'
    """
    held = UNIT.sub(KEPT, words.replace("$", r"\$"))
    return textwrap.fill(held, letters, break_on_hyphens=False).replace(KEPT, " ")


def line_style(names: Sequence[str], name: str, *, families: bool = True) -> dict[str, Any]:
    """Return how the line of a name looks: families share a colour, members of one rank a dash.

    Names are of families where these are told by what comes before the last hyphen.

    >>> line_style(["a100-nvs4", "a100-nvs8"], "a100-nvs8")["linestyle"]
    '--'
    >>> line_style(["a100", "h200"], "h200")["linestyle"]
    '-'
    >>> line_style(["gpt3", "gpt3-1t"], "gpt3-1t", families=False)["linestyle"]
    '-'
    """
    colour, dash = names.index(name), -1
    if families and (told := families_of(names)):
        heads, tails = told
        colour, dash = heads.index(_head(name)), tails.index(name.rpartition("-")[2])
    mark = dash if dash >= 0 else colour
    return {
        "color": COLOURS[colour % len(COLOURS)],
        "linestyle": "-" if dash < 0 else DASHES[dash % len(DASHES)],
        "marker": MARKERS[mark % len(MARKERS)],
        "markersize": 5,
        "linewidth": 1.6,
    }


def families_of(names: Sequence[str]) -> tuple[list[str], list[str]] | None:
    """Return the families of names and the ranks in them, None where names make no families.

    >>> families_of(["a100-nvs4", "a100-nvs8", "b200-nvs4"])
    (['a100', 'b200'], ['nvs4', 'nvs8'])
    """
    heads = list(dict.fromkeys(map(_head, names)))
    tails = list(dict.fromkeys(name.rpartition("-")[2] for name in names))
    return (heads, tails) if len(heads) < len(names) else None


def _head(name: str) -> str:
    return name.rpartition("-")[0] or name


def count(value: float, _: object = None) -> str:
    """Return a number as people write counts.

    >>> count(16384.0), count(0.5)
    ('16,384', '0.5')
    """
    return f"{value:,.0f}" if value >= 1 and value == round(value) else f"{value:g}"


def powers_of_two(axis: Axis, least: float, most: float, labels: int = 14) -> None:
    """Set an axis to powers of two between two values, labelled 128, 256 ... 16,384."""
    _scale(axis, base=2)
    low, high = int(np.ceil(np.log2(least) - 1e-9)), int(np.floor(np.log2(most) + 1e-9))
    every = max(1, -(-(high - low + 1) // labels))
    ticks = [2.0**k for k in range(high, low - 1, -every)][::-1]
    axis.set_major_locator(FixedLocator(ticks))
    axis.set_minor_locator(NullLocator())
    axis.set_major_formatter(FuncFormatter(count))


def few_of_a_decade(axis: Axis, steps: Sequence[float] = (1.0, 2.0, 5.0)) -> None:
    """Set an axis to logarithms with round numbers at it: 1, 2, 5, 10."""
    _scale(axis, base=10)
    axis.set_major_locator(LogLocator(subs=steps))
    axis.set_major_formatter(FuncFormatter(count))
    axis.set_minor_locator(NullLocator())


def sizes_axis(axes: Axes, sizes: np.ndarray, labels: int = 14, right: float = 1.25) -> None:
    """Set the x axis to cluster sizes in powers of two, with a little room on both sides."""
    least, most = float(np.min(sizes)), float(np.max(sizes))
    powers_of_two(axes.xaxis, least, most, labels)
    axes.set_xlim(least / 1.25, most * right)
    axes.set_xlabel("accelerators")


def _scale(axis: Axis, base: int) -> None:
    if axis is axis.axes.xaxis:
        axis.axes.set_xscale("log", base=base)
    else:
        axis.axes.set_yscale("log", base=base)


def human(values: np.ndarray, unit: str) -> tuple[float, str]:
    """Return what to divide amounts by, and the unit that they are in then.

    >>> human(np.array([80e9, 384e9]), "B"), human(np.array([3.75e15]), "FLOP/s")
    ((1000000000.0, 'GB'), (1000000000000000.0, 'PFLOP/s'))
    >>> human(np.array([2e-5]), "s"), human(np.array([4096]), "1")
    ((1e-06, 'us'), (1.0, ''))
    """
    largest = float(np.nanmax(np.abs(values), initial=0.0))
    if unit == "s" and 0 < largest < 1:
        return (1e-3, "ms") if largest >= 1e-3 else (1e-6, "us")
    if unit not in ("B", "B/s", "FLOP", "FLOP/s", "W") or largest == 0:
        return 1.0, "" if unit == "1" else unit
    power = next((p for p in PREFIXES if float(f"{largest:.12g}") >= 10.0**p), 0)
    return float(f"1e{power}"), f"{PREFIXES[power]}{unit}"


def with_unit(words: str, unit: str) -> str:
    """Return a label with its unit in brackets.

    >>> with_unit("memory", "GB"), with_unit("speed-up", "")
    ('memory [GB]', 'speed-up')
    """
    return f"{words} [{unit}]" if unit else words


def legend(made: Figure, cells: Iterable[Axes] = (), columns: int = 3, **more: Any) -> None:
    """Put one legend of all that is labelled below the panels, each entry once."""
    entries: dict[str, Any] = {}
    for axes in cells or made.axes:
        handles, words = axes.get_legend_handles_labels()
        entries |= dict(zip(words, handles, strict=True))
    entries |= {str(extra.get_label()): extra for extra in more.pop("extra", ())}
    if entries:
        wide = max(len(line) for words in entries for line in words.split("\n"))
        columns = max(1, min(columns, len(entries), LEGEND // (wide + 6)))
        where: Any = {"loc": "outside lower center", "ncols": columns, **more}
        made.legend(entries.values(), entries.keys(), **where)


def grid(axes: Axes, axis: Any = "both") -> None:
    """Draw light lines behind what is drawn."""
    axes.set_axisbelow(True)
    axes.grid(visible=True, axis=axis, color="#DDDDDD", linewidth=0.6)


def band(axes: Axes, left: float, right: float, words: str = "") -> Patch:
    """Hatch the part of an x axis where nothing fits and say so in it."""
    patch = axes.axvspan(left, right, zorder=0.5, **UNFIT)
    if words:
        log = axes.get_xscale() == "log"
        middle = (left * right) ** 0.5 if log else (left + right) / 2
        note(axes, middle, 0.5, words, rotation=90, transform=axes.get_xaxis_transform())
    return patch


def note(axes: Axes, x: float, y: float, words: str, **more: Any) -> None:
    """Write words on a light ground, so that they read on hatching and on colours."""
    box = {"boxstyle": "round,pad=0.25", "facecolor": "white", "edgecolor": "none", "alpha": 0.85}
    style: dict[str, Any] = {"ha": "center", "va": "center", "zorder": 6, **more}
    axes.text(x, y, words, bbox=box, **style).set_in_layout(False)


def nothing(axes: Axes, words: str) -> None:
    """Hatch the whole of a picture in which nothing fits, and say why."""
    axes.add_patch(unfit_ground(axes))
    # a panel that shares its axis with others carries the labels of all
    alone = len(axes.get_shared_y_axes().get_siblings(axes)) == 1
    axes.tick_params(which="both", axis="x", length=0, labelbottom=False)
    if alone:
        axes.tick_params(which="both", axis="y", length=0, labelleft=False)
    note(axes, 0.5, 0.5, words, transform=axes.transAxes)


def unfit_ground(axes: Axes) -> Patch:
    """Return a hatched rectangle as large as the axes, for what is drawn to cover."""
    return Rectangle((0, 0), 1, 1, transform=axes.transAxes, zorder=0, **UNFIT)
