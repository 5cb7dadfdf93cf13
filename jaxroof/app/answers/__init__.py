"""Answers to a state, each a pure function to data: no widget, no picture, no session."""
