"""Every collective of the package, found by its arguments."""

import inspect

from jaxroof.formulas import network

ARGUMENTS = list(inspect.signature(network.study_gather).parameters)
COLLECTIVES = [  # one function under several names once
    function
    for name, function in vars(network).items()
    if inspect.isfunction(function)
    and function.__name__ == name
    and list(inspect.signature(function).parameters) == ARGUMENTS
]
