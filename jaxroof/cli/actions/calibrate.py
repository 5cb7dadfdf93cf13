"""The calibrate command: fit constants of a chip to a file of measured steps."""

import pathlib

from jaxroof.cli.actions.console import console, print_text
from jaxroof.cli.actions.outputs import report_written
from jaxroof.cli.progress import working
from jaxroof.errors import InputError, refusal
from jaxroof.io.atomic import replace_file
from jaxroof.io.formats import check_placeable
from jaxroof.validation.measured_rows import Table, read_table
from jaxroof.validation.steps.calibration import calibrate
from jaxroof.validation.steps.chip_file import chip_lines
from jaxroof.validation.steps.next_measurement import most_instructive
from jaxroof.views.text import calibration as views
from jaxroof.views.text.step_scores import assumed_lines, unknown_columns

KIND = ".toml"


def calibrate_command(*, file: str, system: str, as_json: bool, output: str | None) -> None:
    """Print, and write, the constants that a file of measured steps tells.

    Raises: InputError for a file, a system or rows that cannot be used.
    """
    if output is not None:
        if pathlib.Path(output).suffix != KIND:
            raise refusal(output, f"expected a name that ends in {KIND}")
        check_placeable(output)
    table = read_table(file)
    rows = len(table.rows)
    with working(f"fitting constants to {rows:,} rows"):
        try:
            found = calibrate(table.rows, system)
        except InputError as error:
            raise _no_fit(file, table, str(error)) from None
        further = most_instructive(found)
    if output is not None:
        with replace_file(output) as name, open(name, "w", encoding="utf-8") as out:
            out.writelines(f"{line}\n" for line in chip_lines(found, pathlib.Path(file).name))
    if as_json:
        print(views.calibration_json(found, further))
    else:
        page = console()
        print_text(page, views.factor_sentence(found))
        if found.constants:
            page.print()
            page.print(views.constants_table(found))
        page.print()
        page.print(views.rows_table(found))
        print_text(page, *views.outlier_lines(found), *views.sentences(found))
        print_text(page, views.software_sentence(found))
        print_text(page, *assumed_lines(table), *unknown_columns(table))
        print_text(page, *views.measurement_lines(further))
    report_written(output)


def _no_fit(file: str, table: Table, said: str) -> InputError:
    """Return why rows cannot be used, with the columns that nothing reads."""
    if not said.startswith("no row"):
        return InputError(said)
    return refusal(file, " ".join([said + ".", *unknown_columns(table)]) if table.unknown else said)
