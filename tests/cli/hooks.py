"""An application with webhooks, for the shell's tests."""

from __future__ import annotations

from oncue import Ladder, Oncue, cron

app = Oncue()

orders = app.webhook(
    "orders",
    url="https://shop.example/hook",
    secrets="env:ONCUE_SECRET_ORDERS",
    headers={"Authorization": "env:ONCUE_SECRET_TOKEN"},
    retry=Ladder("10s", "1m"),
)
nightly = app.webhook("nightly", url="https://shop.example/nightly", schedule=cron("0 3 * * *"))
