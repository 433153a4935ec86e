"""The application. Its jobs are made over HTTP, so that its code declares none."""

from __future__ import annotations

from oncue import Oncue

NAME = "webhook_cron"

app = Oncue(name=NAME)
