"""How much of an answer is shown, from one JSON object to proofs and assumptions."""

import enum


class Detail(enum.IntEnum):
    """How much is shown, from least to most."""

    JSON = 0  # one JSON object for programs
    QUIET = 1  # the table, or the one answer
    USUAL = 2  # what a person needs in a minute
    VERBOSE = 3  # proofs, counts, what was assumed
