"""The command `jaxroof calibrate`: constants of a chip from measured steps."""

import click

from jaxroof.cli.options import Command, shared


@click.command(
    name="calibrate",
    cls=Command,
    short_help="Fit few constants to your own measured steps.",
    epilog="""\b
Examples:
  jaxroof calibrate runs.csv --system h100-nvs8
  jaxroof calibrate runs.csv --system h100-nvs8 -o mine.toml

A row is a measured run: its columns are inputs of training, as evaluate reads them, and
#measured_step_time_s, the seconds of a step. Columns such as software.year and attention_kernel say
what software it was. First comes the factor by which its steps take longer than predicted, then the
constants that the rows tell; what they do not tell stays as it is. The file is a system like any
other: --system mine.toml.
""",
)
@click.argument("file", metavar="ROWS.csv")
@click.option(
    "--system", required=True, metavar="NAME", help="The machine of the rows, or a TOML file."
)
@shared("json")
@click.option("-o", "--output", metavar="FILE.toml", help="Write the calibrated system.")
def command(file: str, system: str, output: str | None) -> None:
    """Fit few constants of a chip to your own measured steps."""
    import pathlib

    from jaxroof.cli import deliver
    from jaxroof.cli.progress import working
    from jaxroof.errors import InputError, refusal
    from jaxroof.io.atomic import replace_file
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
    table = table_of(file)
    with working(f"fitting constants to {len(table):,} rows"):
        try:
            found = calibrate(table, system)
        except InputError as error:
            said = str(error)
            raise refusal(file, said) if said.startswith("no row") else error from None
        further = most_instructive(found)
    if output is not None:
        with replace_file(output) as name, open(name, "w", encoding="utf-8") as out:
            out.writelines(f"{line}\n" for line in chip_lines(found, pathlib.Path(file).name))
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
