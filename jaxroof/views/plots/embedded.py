"""Pictures inside a page: vector graphics where these are small, dots where they are not."""

import io

import matplotlib as mpl
from matplotlib.figure import Figure

from jaxroof.views.plots.dots import png_of

MOST = 1_500_000  # bytes of vector graphics; a picture of more is drawn in dots
DOTS = 200  # an inch


def embedded(figure: Figure) -> tuple[str, bytes]:
    """Return a picture as (media type, content) for a page that holds it."""
    stream = io.BytesIO()
    with mpl.rc_context({"svg.hashsalt": "jaxroof"}):  # the same picture is the same text
        figure.savefig(stream, format="svg", metadata={"Date": None, "Creator": None})
    if stream.tell() <= MOST:
        return "image/svg+xml", stream.getvalue()
    return "image/png", png_of(figure, dpi=DOTS)
