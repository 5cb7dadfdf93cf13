"""The command line behind its options: what was typed, what is done, where results go."""
