"""The best machine for a budget: prices, bounds and a proof of optimality."""
