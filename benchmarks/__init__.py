"""One file per target of the design, each beside a peer in the same run: ``python -m benchmarks.run``."""
