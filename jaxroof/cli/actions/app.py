"""The app command: serve the page until it is interrupted."""

from jaxroof.cli.actions.console import console, print_text
from jaxroof.cli.process import outlive_connections
from jaxroof.errors import InputError

NEEDED = ("panel", "bokeh", "matplotlib", "tornado")


def app_command(*, file: str | None, port: int, address: str) -> int:
    """Serve the page in the browser; return the exit status."""
    try:
        from jaxroof.app.serve import LOOPBACK, serve
    except ModuleNotFoundError as error:
        if (error.name or "").partition(".")[0] not in NEEDED:
            raise
        what = f"app: {error.name} is not installed"
        raise InputError(f"{what}; expected the extra: pip install 'jaxroof[app]'") from None
    from jaxroof.app.opened import opened
    from jaxroof.app.state import START, to_link

    first = START if file is None else opened(file)
    page = console()
    print_text(page, f"The page is at http://{address}:{port}/{to_link(first)}")
    if address != LOOPBACK:
        print_text(page, "Who reaches this address can use it: there is no password.")
    print_text(page, "Ctrl-C ends it.")
    outlive_connections()
    serve(first, port, address)
    return 0
