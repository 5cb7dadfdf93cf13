"""Searches: problems, candidates, the fold over plans, winners and rankings."""
