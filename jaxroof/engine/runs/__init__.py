"""Long runs: chunked sweeps, append-only tables of plans, streams of rows."""
