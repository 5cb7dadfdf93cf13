"""The page in the browser: a state, pure answers to it, and the views that show them."""
