"""Grids: axes, tables and searches over any estimator; nothing of transformers."""
