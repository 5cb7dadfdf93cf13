"""The command `jaxroof calibrate`: constants of a chip, of serving software, of a fabric."""

import click

from jaxroof.cli import types
from jaxroof.cli.options import Command, shared


@click.command(
    name="calibrate",
    cls=Command,
    short_help="Fit few constants to your own measured steps.",
    epilog="""\b
Examples:
  jaxroof calibrate runs.csv --system h100-nvs8
  jaxroof calibrate runs.csv --system h100-nvs8 -o mine.toml
  jaxroof calibrate servers.csv --system h100-nvs8 --software vllm -o m.toml
  jaxroof calibrate all_reduce.log --system dgx-h100-pod -o mine.toml

A row is a measured run: its columns are inputs of training, as evaluate reads them, and
#measured_step_time_s, the seconds of a step. Columns such as software.year and attention_kernel say
what software it was. First comes the factor by which its steps take longer than predicted, then the
constants that the rows tell; what they do not tell stays as it is. The file is a system like any
other: --system mine.toml.

Rows with a column #kind are measured servers, as `jaxroof validate serving` has them: they tell
constants of their software, and the file is a software like any other: --set software=mine.toml.

A file that is no .csv is the output of nccl-tests or rccl-tests, text or JSON: it tells constants
of the fabric, such as efficiency, hops and the start of a collective.
""",
)
@click.argument("file", metavar="FILE")
@click.option(
    "--system", required=True, metavar="NAME", help="The machine of the rows, or a TOML file."
)
@click.option(
    "--software", metavar="NAME", help="The engine of measured servers, or a file of its constants."
)
@click.option("--op", metavar="OP", help="Operation of nccl-tests, where its file does not say it.")
@click.option(
    "--stride", metavar="S", type=types.COUNT, default=1, hidden=True,
    help="Ranks from one of the group of nccl-tests to the next.",
)  # fmt: skip
@shared("json")
@click.option("-o", "--output", metavar="FILE.toml", help="Write the calibrated system.")
def command(
    file: str, system: str, software: str | None, op: str | None, stride: int, output: str | None
) -> None:
    """Fit few constants to what you measured: steps, servers, or collectives of nccl-tests."""
    import pathlib

    from jaxroof.cli import deliver
    from jaxroof.cli.progress import working
    from jaxroof.errors import InputError, refusal
    from jaxroof.io.atomic import write_lines
    from jaxroof.io.formats import check_placeable
    from jaxroof.validation.calibration.chip_file import chip_lines
    from jaxroof.validation.calibration.fabric import fit_fabric
    from jaxroof.validation.calibration.fit import calibrate
    from jaxroof.validation.calibration.next_measurement import most_instructive
    from jaxroof.validation.calibration.server import calibrate_servers
    from jaxroof.validation.calibration.told import file_lines
    from jaxroof.validation.rows import table_of
    from jaxroof.views.text import calibration as views
    from jaxroof.views.text.said import Detail

    if output is not None:
        if pathlib.Path(output).suffix != ".toml":
            raise refusal(output, "expected a name that ends in .toml")
        check_placeable(output)
    name = pathlib.Path(file).name
    table = table_of(file) if file.lower().endswith((".csv", ".csv.gz")) else None
    if table is None or ("#kind" in table and "#measured_step_time_s" not in table):
        if table is None:
            fitted = fit_fabric(file, system, op, stride)
        else:
            with working(f"fitting constants to {len(table):,} rows"):
                fitted = calibrate_servers(table, system, software)
        lines = (*file_lines(name, fitted), *fitted.written)
        said, in_json = views.fitted_said(fitted), views.fitted_json(fitted)
    else:
        with working(f"fitting constants to {len(table):,} rows"):
            try:
                found = calibrate(table, system)
            except InputError as error:
                words = str(error)
                raise refusal(file, words) if words.startswith("no row") else error from None
            further = most_instructive(found)
        lines = (*chip_lines(found, name),)
        said, in_json = views.chip_said(found, further), views.chip_json(found, further)
    if output is not None:
        write_lines(output, lines)
    if deliver.detail() is Detail.JSON:
        click.echo(in_json)
    else:
        deliver.say_all(said)
    deliver.report_written(output)
