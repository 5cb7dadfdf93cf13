"""What limits a step: the step as each parameter of the machine varies."""

import xarray as xr
from matplotlib.figure import Figure

from jaxroof.analyses.explain import explanation_of
from jaxroof.analyses.result_metadata import run_of
from jaxroof.views.plots.tornado import tornado
from jaxroof.views.text.explain import with_capacity


def picture(data: xr.Dataset) -> Figure:
    """Return the bars of an explanation, one a parameter; plans are chosen anew at every value."""
    found = explanation_of(data)
    title = f"{data.attrs.get('title', '')}: the {run_of(found.best)} as each parameter varies"
    return tornado(with_capacity(found.response, found.steps).assign_attrs(title=title))
