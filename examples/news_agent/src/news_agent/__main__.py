"""`python -m news_agent`."""

from __future__ import annotations

from news_agent.command import main

main()
