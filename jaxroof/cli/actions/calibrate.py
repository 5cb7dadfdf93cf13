"""The calibrate command: fit constants of a chip to a file of measured steps."""

import pathlib

from jaxroof.cli.actions.console import console, print_text
from jaxroof.cli.actions.outputs import report_written
from jaxroof.cli.progress import working
from jaxroof.errors import InputError, refusal
from jaxroof.io.atomic import replace_file
from jaxroof.io.formats import check_placeable
from jaxroof.validation.calibration.chip_file import chip_lines
from jaxroof.validation.calibration.fit import calibrate
from jaxroof.validation.calibration.next_measurement import most_instructive
from jaxroof.validation.rows import table_of
from jaxroof.views.text import calibration as views

KIND = ".toml"


def calibrate_command(*, file: str, system: str, as_json: bool, output: str | None) -> None:
    """Print, and write, the constants that a file of measured steps tells.

    Raises: InputError for a file, a system or rows that cannot be used.
    """
    if output is not None:
        if pathlib.Path(output).suffix != KIND:
            raise refusal(output, f"expected a name that ends in {KIND}")
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
        print_text(page, *views.measurement_lines(further))
    report_written(output)
