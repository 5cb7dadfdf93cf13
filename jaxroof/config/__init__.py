"""TOML: sweep, design and uncertainty files, read, checked and run."""
