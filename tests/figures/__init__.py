"""Every figure of bench, dst, fuzz and chaos comes to its verdict: tiny runs of the very code that measures."""
