"""A transformer training step on many accelerators: its time, its memory, its legal plans."""
