"""The commands, one file each; what is slow to import is imported in their bodies."""
