"""Data movement and latency: how far the training of linear layers scales."""
