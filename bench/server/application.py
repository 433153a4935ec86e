"""The application whose API is measured; its database is DATABASE_URL. `oncue serve --app bench.server.application`."""

from __future__ import annotations

from oncue import Oncue

app = Oncue()


@app.task
async def noop() -> None: ...
