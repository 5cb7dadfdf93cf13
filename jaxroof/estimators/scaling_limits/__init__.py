"""Limits that data movement and latency set to the training of linear layers."""
