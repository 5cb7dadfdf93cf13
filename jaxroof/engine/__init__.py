"""Grids: axes, tables and searches over any estimator. Knows records and arrays, nothing of transformers."""
