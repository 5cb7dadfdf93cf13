"""Costs: pure functions of numbers. They know nothing of records, grids or files."""
