"""Grids: axes, evaluation of points, tables and datasets."""
