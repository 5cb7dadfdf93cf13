"""Serving a transformer: one engine step, its memory, a server under load, pools of both kinds."""
