"""Rows of a table: headings and cells read, answered in chunks, written beside what was typed."""
