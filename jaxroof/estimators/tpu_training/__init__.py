"""A training step under MaxText on a torus of TPUs: its time, its memory and its plans."""
