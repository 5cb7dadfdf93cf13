"""Memory that others measured: rows of a common schema, what is predicted for them, the error."""
