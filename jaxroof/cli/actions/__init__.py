"""Implementation of each command: read the options, evaluate, print, write."""
