"""Cost formulas: pure functions of numbers, independent of records, grids and files."""
