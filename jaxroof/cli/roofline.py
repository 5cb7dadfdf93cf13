"""Options of the command `jaxroof roofline`."""

from typing import Any

import click

from jaxroof.cli import process
from jaxroof.cli.shared_options import shared


@click.command(
    name="roofline",
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
@click.option(
    "--set", "sets", multiple=True, metavar="PATH=VALUE",
    help="Change a field or a choice, such as system.hbm_bandwidth='1.6 TB/s'.",
)  # fmt: skip
@click.option(
    "--sweep", metavar="LETTER=FROM:TO[:COUNT]",
    help="Sizes in equal ratios, such as B=1:8192; draws NAME_roofline.png where no -o is given.",
)  # fmt: skip
@shared("output")
def command(**options: Any) -> None:
    """Print what binds an operator, by how much, and from which size on arithmetic does."""
    process.act(__name__, options)
