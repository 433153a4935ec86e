"""The guide's view of Django, in a process of its own: a user that signs up and its window are one commit."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path
from urllib.parse import parse_qs, urlsplit

import pytest

GUIDE = Path(__file__).parents[2] / "docs" / "guide.md"

BEGIN = """
import asyncio, sys
from datetime import date
import django
from django.conf import settings

settings.configure(DATABASES={{"default": {database!r}}}, USE_TZ={use_tz}, TIME_ZONE="America/New_York")
django.setup()
from django.db import connection, models, transaction
from django.http import HttpResponse
from oncue import Oncue, daily
from oncue.verbs.schedules.declaring import Declaring

app = Oncue({url!r})

@app.task
async def greet(user: str) -> None: ...

@app.task(schedule=daily())
async def morning_digest(user: str, day: date) -> None: ...

class User(models.Model):
    name = models.TextField()
    class Meta:
        app_label = "news"

app.wait(Declaring(app.internals).synchronise())
with connection.schema_editor() as editor:
    editor.create_model(User)
"""

END = """
class Request:
    def __init__(self, **fields):
        self.POST = fields

def seen():
    users = sorted(User.objects.values_list("name", flat=True))
    return users, [one.name for one in app.wait(app.windows.subjects("morning_digest"))]

sign_up(Request(name="eve", at="09:00"))
assert seen() == (["eve"], ["eve"]), seen()
for wrong in ({"name": "bob", "at": "soon"}, {"name": "", "at": "09:00"}):
    try:
        sign_up(Request(**wrong))
    except ValueError as error:
        print(error)
    else:
        raise AssertionError(wrong)
assert seen() == (["eve"], ["eve"]), "neither the user nor its window"
before, after = app.wait(app.now()), None
with transaction.atomic():
    receipt = greet.using(on=connection).enqueue("eve")
    app.wait(app.windows.change("morning_digest", "eve", at="10:00", on=connection))
assert abs((receipt.created_at - before).total_seconds()) < 60, "the instants have their zones"
eve = app.wait(app.windows.subject("morning_digest", "eve"))
assert (eve.due, abs((eve.since - before).total_seconds()) < 60) == (600, True)
with connection.schema_editor() as editor:
    editor.delete_model(User)
connection.close()
app.close()
"""


def settings_of(url: str) -> dict[str, str]:
    if url.startswith("sqlite"):
        return {"ENGINE": "django.db.backends.sqlite3", "NAME": url.removeprefix("sqlite:///")}
    parts = urlsplit(url)
    place = {"HOST": parse_qs(parts.query).get("host", [parts.hostname or ""])[0], "PORT": str(parts.port or "")}
    user = {"USER": parts.username or "", "PASSWORD": parts.password or ""}
    return {"ENGINE": "django.db.backends.postgresql", "NAME": parts.path.lstrip("/"), **user, **place}


@pytest.mark.parametrize("use_tz", [True, False])
def test_a_view_of_django(database_url: str, tmp_path: Path, use_tz: bool) -> None:
    chapter = GUIDE.read_text("utf-8").split("\n### A user that signs up\n")[1].split("\n## ")[0]
    (example,) = [text for text in re.findall(r"```python\n(.*?)```", chapter, re.DOTALL) if "transaction" in text]
    begin = BEGIN.format(database=settings_of(database_url), use_tz=use_tz, url=database_url)
    (tmp_path / "views.py").write_text(begin + example + END, "utf-8")
    done = subprocess.run(
        [sys.executable, "-W", "error", "views.py"], cwd=tmp_path, capture_output=True, text=True, timeout=60
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout.splitlines()[0].startswith("at: expected a time of day"), done.stdout
