"""A question of a user's own, in a module beside its sweep file: sums on a ring."""

RING = """
@jr.record
class Ring:
    message: float = jr.quantity("B", "Bytes to sum.")
    ranks: float = jr.quantity("1", "Accelerators on the ring.", whole=True)
"""
SWEEP = """
title = "A ring"
estimator = "mine:estimator"
[inputs]
message = "1 GB"
[axes]
message = { from = "1 MB", to = "10 MB", count = 12 }
ranks = { from = 2, to = 20, count = 10 }
"""
