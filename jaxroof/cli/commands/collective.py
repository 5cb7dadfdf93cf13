"""The command `jaxroof collective`: how long one collective takes, and by which algorithm."""

from typing import Any

import click

from jaxroof.cli import types
from jaxroof.cli.options import Command, settings_of, shared


@click.command(
    name="collective",
    cls=Command,
    short_help="Print how long one collective takes, and by which algorithm.",
    epilog="""\b
Examples:
  jaxroof collective --system dgx-h100-pod --gpus 64 --op all_reduce \\
      --sizes 1KiB:8GiB:2
  jaxroof collective --system taper-2-h100 --gpus 1024 --op all_to_all \\
      --sizes 1MiB,1GiB --set tiers.2.oversubscription=4
  jaxroof collective --system tpu-v5p --slice 4x4x8 --axes 0,1 \\
      --op all_gather --sizes 1MiB:1GiB:4 -o gather.png
  jaxroof collective --system dgx-h100-pod --measured all_reduce.log
""",
)
@shared("system")
@click.option("--op", metavar="OP", help="all_reduce all_gather reduce_scatter all_to_all ...")
@click.option("--gpus", metavar="N", type=types.COUNT, help="Accelerators of the group.")
@click.option(
    "--stride", metavar="S", type=types.COUNT,
    help="Ranks from one of the group to the next.  [default: 1]",
)  # fmt: skip
@click.option(
    "--sizes", metavar="SIZES",
    help="Buffer sizes: 1KiB:8GiB:2 or 1MiB,1GiB.  [default: those of --measured]",
)  # fmt: skip
@click.option(
    "--mode", metavar="MODE",
    help="tuned: by the library's own table; best: the least time.  [default: tuned]",
)  # fmt: skip
@click.option("--algorithm", metavar="NAME", help="One by name, such as tree or 'tree low'.")
@click.option("--in-place", is_flag=True, help="Without copies; compare with that half of a file.")
@click.option("--slice", "slice_shape", metavar="XxYxZ", help="Slice of a torus, such as 4x4x8.")
@click.option("--axes", metavar="I[,I]", help="Whole axes of the group.  [default: all]")
@click.option(
    "--measured", metavar="FILE", help="Output of nccl-tests or rccl-tests to lay beside."
)
@shared("set", "output", "json", "quiet")
def command(system_name: str, sets: tuple[str, ...], output: str | None, **options: Any) -> None:
    """Print how long one collective takes at every size, by which algorithm, and what binds."""
    from jaxroof.analyses.collective import collective, wide
    from jaxroof.cli import deliver

    deliver.check_output(output)
    data = collective(system_name, settings=settings_of(sets), **options)
    table = wide(data) if output is not None and output.endswith(".csv") else None
    deliver.deliver(data, output, table=table)
