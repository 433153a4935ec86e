"""The benchmarks: bare loops, peers and oncue side by side, as ratios within one run. See README.md."""
