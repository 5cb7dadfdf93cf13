"""The command `jaxroof roofline`: what binds an operator."""

from typing import Any

import click

from jaxroof.cli.options import Command, settings_of, shared

ROWS = 12  # sizes of a sweep that a terminal shows


@click.command(
    name="roofline",
    cls=Command,
    short_help="Print what binds an operator, and from which size on.",
    epilog="""\b
Examples:
  jaxroof roofline --op matmul --shape B=256,D=4096,F=16384 --system tpu-v5e
  jaxroof roofline --op matmul --shape B=256,D=4096,F=16384 --system tpu-v5e \\
      --dtypes bf16 --dtypes bf16,int8,bf16
  jaxroof roofline --op matmul --shape D=4096,F=16384 --sweep B=1:8192 \\
      --system tpu-v5e,h100-sxm -o roofline.png
  jaxroof roofline --op matmul --shape B=128,D=4096,F=16384 --system tpu-v5e \\
      --set system.hbm_bandwidth='1.6 TB/s'
""",
)
@click.option("--op", required=True, metavar="NAME", help="Operator, such as matmul.")
@click.option(
    "--shape", default="", metavar="LETTER=N,...",
    help="Sizes by letter or name: B=256,D=4096,F=16384; without any, what the operator takes.",
)  # fmt: skip
@click.option(
    "--dtypes", multiple=True, metavar="F[,F,F]",
    help="Format of input, weight and output, or one for all: bf16 fp16 fp32 fp8 int8 fp4 int4. "
    "Repeat to compare.  [default: bf16]",
)  # fmt: skip
@click.option("--system", "system_names", metavar="S[,S...]", help="Names or files.")
@click.option(
    "--format", "number_format", metavar="F",
    help="Number format of the matrix peak.  [default: the wider of input and weight]",
)  # fmt: skip
@shared("set")
@click.option(
    "--sweep", metavar="LETTER=FROM:TO[:COUNT]",
    help="Sizes in equal ratios, such as B=1:8192; draws NAME_roofline.png where no -o is given.",
)  # fmt: skip
@shared("output")
def command(op: str, sweep: str | None, output: str | None, **options: Any) -> None:
    """Print what binds an operator, by how much, and from which size on arithmetic does."""
    import contextlib
    import importlib.util
    import os

    from jaxroof.analyses.roofline import roofline
    from jaxroof.analyses.roofline_reading import is_roofline
    from jaxroof.cli import deliver
    from jaxroof.errors import InputError, refusal
    from jaxroof.views.answers import answer
    from jaxroof.views.text.said import Page

    deliver.check_output(output)
    data = roofline(
        op,
        options["shape"],
        dtypes=options["dtypes"],
        system=options["system_names"],
        number_format=options["number_format"],
        sweep=sweep,
        settings=settings_of(options["sets"]),
    )
    able = is_roofline(data)
    if deliver.is_picture(output) and not able:
        raise refusal(
            "-o", f"{op} has no roof to draw; expected a name that ends in .csv, .json or .nc"
        )
    drawn = output
    plots = importlib.util.find_spec("matplotlib") is not None and os.access(os.curdir, os.W_OK)
    if sweep is not None and output is None and able and plots:
        with contextlib.suppress(InputError):  # where no picture exists the table has all
            deliver.write_or_draw(data, f"{op}_roofline.png", data)
            drawn = f"{op}_roofline.png"
    said = answer(data, Page(most=ROWS, kept=drawn is not None))
    deliver.deliver(data, output, said=said, report=False)
    deliver.report_written(drawn)
