"""Files: results, Zarr chunks and their manifest, traces, safe writing and locks."""
