"""The command `jaxroof calibrate`: constants of a chip, of serving software, of a fabric."""

from typing import Any

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
    from jaxroof.validation.calibration.fit import calibrate
    from jaxroof.validation.calibration.next_measurement import most_instructive
    from jaxroof.validation.rows import table_of
    from jaxroof.views.text import calibration as views
    from jaxroof.views.text.said import Detail

    if output is not None:
        if pathlib.Path(output).suffix != ".toml":
            raise refusal(output, "expected a name that ends in .toml")
        check_placeable(output)
    if not file.lower().endswith((".csv", ".csv.gz")):
        _fabric(file, system, op, stride, output)
        return
    table = table_of(file)
    if "#kind" in table and "#measured_step_time_s" not in table:
        _servers(table, file, system, software, output)
        return
    with working(f"fitting constants to {len(table):,} rows"):
        try:
            found = calibrate(table, system)
        except InputError as error:
            said = str(error)
            raise refusal(file, said) if said.startswith("no row") else error from None
        further = most_instructive(found)
    if output is not None:
        write_lines(output, chip_lines(found, pathlib.Path(file).name))
    if deliver.detail() is Detail.JSON:
        click.echo(views.calibration_json(found, further))
    else:
        page = deliver.console()
        deliver.print_text(page, views.factor_sentence(found))
        if found.constants:
            page.print()
            page.print(views.constants_table(found))
        page.print()
        page.print(views.rows_table(found))
        deliver.print_text(page, *views.outlier_lines(found), *views.sentences(found))
        deliver.print_text(page, views.software_sentence(found), *views.measurement_lines(further))
    deliver.report_written(output)


def _fabric(file: str, system: str, op: str | None, stride: int, output: str | None) -> None:
    """Fit few constants of a fabric to what nccl-tests measured."""
    from jaxroof.cli import deliver
    from jaxroof.io.atomic import write_lines
    from jaxroof.validation.calibration.fabric import fabric_lines, fit_fabric
    from jaxroof.views.text import fabric_fit as views
    from jaxroof.views.text.said import Detail

    found = fit_fabric(file, system, op, stride)
    if output is not None:
        write_lines(output, fabric_lines(found))
    if deliver.detail() is Detail.JSON:
        click.echo(views.fit_json(found))
    else:
        page = deliver.console()
        deliver.print_text(page, views.fit_sentence(found))
        page.print()
        page.print(views.constants_table(found.constants, views.amount))
        deliver.print_text(page, views.untold_sentence(found.untold))
    deliver.report_written(output)


def _servers(table: Any, file: str, system: str, software: str | None, output: str | None) -> None:
    """Fit few constants of software that serves to measured servers."""
    import pathlib

    from jaxroof.cli import deliver
    from jaxroof.cli.progress import working
    from jaxroof.io.atomic import write_lines
    from jaxroof.validation.calibration.server import calibrate_servers, software_lines
    from jaxroof.views.text import server_fit as views
    from jaxroof.views.text.fabric_fit import constants_table, untold_sentence
    from jaxroof.views.text.said import Detail

    with working(f"fitting constants to {len(table):,} rows"):
        found = calibrate_servers(table, system, software)
    if output is not None:
        write_lines(output, software_lines(found, pathlib.Path(file).name))
    if deliver.detail() is Detail.JSON:
        click.echo(views.fit_json(found))
    else:
        page = deliver.console()
        deliver.print_text(page, views.fit_sentence(found))
        if found.constants:
            page.print()
            page.print(constants_table(found.constants, views.amount))
        deliver.print_text(page, untold_sentence(found.untold, "rows"), *views.sentences(found))
    deliver.report_written(output)
