"""Rows of a table: read headings and cells, evaluate in chunks, write results beside them."""
