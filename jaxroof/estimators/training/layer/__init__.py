"""The layers of a model as one list of operations each, and the sums over it."""
