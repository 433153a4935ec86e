"""`python -m cluster_maintenance`."""

from __future__ import annotations

from cluster_maintenance.command import main

main()
