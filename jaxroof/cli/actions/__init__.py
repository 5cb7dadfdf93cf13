"""What each command does: read what was typed, ask, print, write."""
