"""Long runs: sweeps in chunks, tables of plans that grow, rows in a stream."""
