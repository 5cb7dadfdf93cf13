"""The page in the browser: a state, pure answers to it, and the views that show them.

What is wrong with what a person asks is an InputError, which the page shows as one line.
"""
