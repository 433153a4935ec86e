"""The application whose API is measured; its database is DATABASE_URL. `oncue serve --app bench.server.application`."""

from __future__ import annotations

from bench.server.tasks import declare
from oncue import Oncue

app = Oncue()
declare(app)
