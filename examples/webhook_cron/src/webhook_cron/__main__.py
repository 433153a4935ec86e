"""`python -m webhook_cron`."""

from __future__ import annotations

from webhook_cron.command import main

main()
