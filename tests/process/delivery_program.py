"""A worker with one webhook, at the address that its environment names."""

from __future__ import annotations

import os

from oncue import Ladder, Oncue

app = Oncue(name="deliveries")
orders = app.webhook("orders", url=os.environ["RECEIVER"], retry=Ladder("100ms", "100ms", "100ms"))
