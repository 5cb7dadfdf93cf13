"""One operator, and the counts and bounds that rooflines give: what binds, and from which size."""
