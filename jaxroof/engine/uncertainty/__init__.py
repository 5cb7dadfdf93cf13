"""Uncertain inputs: distributions, Sobol sequences, the plan to commit to."""
