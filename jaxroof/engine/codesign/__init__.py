"""Machines for a budget: prices, bounds and the proof of the best."""
