"""The plot command: draw a results file or a sweep file."""

import contextlib
import importlib
import pathlib
import sys

from jaxroof.cli.actions.arguments import parse_pairs
from jaxroof.cli.progress import working
from jaxroof.config.sweep_file import run
from jaxroof.errors import unknown
from jaxroof.io.formats import errors_of_contents, read


def plot_command(
    *, file: str, output: str | None, kind: str | None, points: tuple[str, ...], trust: bool
) -> None:
    """Draw a results file, or run a sweep file and draw its results."""
    plots = importlib.import_module("jaxroof.views.plots")  # matplotlib is an optional dependency
    target = output or f"{pathlib.Path(file).stem}.png"
    plots.drawable(target)
    if kind is not None and kind not in plots.KINDS:
        raise unknown("--kind", kind, "kind of picture", plots.KINDS)
    chosen = parse_pairs("--at", points, "DIM=VALUE, such as gpus=8192")
    with working("drawing"):
        ours = file.endswith(".toml")
        data = run(file, trust=trust) if ours else read(file)
        with contextlib.nullcontext() if ours else errors_of_contents(file):
            data = plots.pick(data, chosen, "--at").load()
            plots.save(plots.draw(data, kind), target)
    print(f"wrote {target}", file=sys.stderr)
