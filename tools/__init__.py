"""Programs around the library: run them from the clone with `python -m tools.NAME`."""
