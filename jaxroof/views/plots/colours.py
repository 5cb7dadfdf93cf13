"""One colour, one meaning, in every picture and on the page: tables from words to colours."""

from collections.abc import Iterable, Mapping

BLUE: str = "#0072B2"
VERMILION: str = "#D55E00"
GREEN: str = "#009E73"
PURPLE: str = "#CC79A7"
ORANGE: str = "#E69F00"
SKY: str = "#56B4E9"
YELLOW: str = "#F0E442"
BLACK: str = "#000000"  # so far Okabe and Ito 2008: told apart by colour-blind readers
GREY: str = "#7F7F7F"
PALE: str = "#C8C8C8"
BROWN: str = "#8C5A2B"
INDIGO: str = "#332288"  # from here on Tol 2021, and shades between
WINE: str = "#882255"
TEAL: str = "#44AA99"
OLIVE: str = "#999933"
LIME: str = "#B5D33D"
VIOLET: str = "#7A5AA6"
STEEL: str = "#5F7F95"
RED: str = "#B2182B"

RESOURCES = {  # of a machine, by the name that estimators give them
    "compute": BLUE,
    "hbm": SKY,
    "fast_links": VERMILION,
    "slow_links": GREEN,
    "latency": WINE,
    "capacity": OLIVE,
}
TIMES = {  # parts of a step, of a layer, and what a device does
    "compute": BLUE,
    "arithmetic": BLUE,
    "arithmetic and launch": BLUE,
    "matrix products": BLUE,
    "HBM": SKY,
    "HBM traffic": SKY,
    "HBM not hidden": SKY,
    "attention and other kernels": STEEL,
    "element-wise kernels": SKY,
    "recompute": INDIGO,
    "recomputation": INDIGO,
    "messages": VERMILION,
    "tensor links": VERMILION,
    "data links": GREEN,
    "data-parallel messages": GREEN,
    "stage sends": PURPLE,
    "sends between stages": PURPLE,
    "uneven stages": YELLOW,
    "bubble": PALE,
    "idle": PALE,
    "update": BROWN,
    "waiting for the host": WINE,
    "latency": WINE,
    "other": GREY,
}
MEMORY = {  # groups of the memory of a device
    "weights": VIOLET,
    "gradients": TEAL,
    "optimizer": BROWN,
    "activations": LIME,
    "momentary": RED,
    "buffers": STEEL,
    "outside": GREY,
}
EVENTS = {  # kinds of events of a trace
    "forward": BLUE,
    "backward": ORANGE,
    "weight": TEAL,
    "send": PURPLE,
    "all-reduce": "#262626",
    "all-gather": "#595959",
    "optimizer": BROWN,
    "other": GREY,
    "idle": "#E4E4E4",  # a ground, paler than a bubble among bars
}
DEGREES = {  # fields of a plan, those of links as their messages
    "data": GREEN,
    "tensor": VERMILION,
    "pipeline": PURPLE,
    "context": SKY,
    "expert": LIME,
    "expert_tensor": OLIVE,
    "interleave": VIOLET,
    "sequence_parallel": TEAL,
    "microbatch": STEEL,
    "panels": BROWN,
    "zero_stage": ORANGE,
    "reshard": GREY,
    "recompute": INDIGO,
    "offload_optimizer": WINE,
    "rank_order": BLACK,
}
MORE = (BLUE, SKY, VERMILION, GREEN, PURPLE, ORANGE, BROWN, TEAL, INDIGO, OLIVE, WINE, GREY, BLACK)
DARK = frozenset({BLUE, VERMILION, GREEN, BLACK, GREY, BROWN, INDIGO, WINE, VIOLET, STEEL, RED})


def colours_of(names: Iterable[str], known: Mapping[str, str] = TIMES | MEMORY) -> dict[str, str]:
    """Return the colour of every name: that of its meaning, or the next that none of them has.

    >>> colours_of(["compute", "oven", "HBM"]) == {"compute": BLUE, "oven": VERMILION, "HBM": SKY}
    True
    """
    asked = list(dict.fromkeys(names))
    taken = {known[name] for name in asked if name in known}
    free = (colour for colour in MORE if colour not in taken)
    return {name: known.get(name) or next(free, GREY) for name in asked}


def ink(ground: str) -> str:
    """Return the colour of words that read on a ground.

    >>> ink(BLUE), ink(YELLOW)
    ('white', 'black')
    """
    return "white" if ground in DARK else "black"
