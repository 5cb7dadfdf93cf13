"""Uncertain inputs: distributions, Sobol sequences and the plan to commit to."""
