"""Every collective of the package, found by its arguments."""

import inspect

from jaxroof.formulas import collectives

ARGUMENTS = list(inspect.signature(collectives.all_gather).parameters)
COLLECTIVES = [  # one function under several names once
    function
    for name, function in vars(collectives).items()
    if inspect.isfunction(function)
    and function.__name__ == name
    and list(inspect.signature(function).parameters) == ARGUMENTS
]
