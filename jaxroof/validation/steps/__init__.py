"""Measured step times: what a row states, what its software does, and the error against it."""
