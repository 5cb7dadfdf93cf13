"""People: what is printed of a result."""
