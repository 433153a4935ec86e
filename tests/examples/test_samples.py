"""The sample feeds over HTTP: they behave as feeds in the world do."""

from __future__ import annotations

from datetime import UTC, datetime

import httpx
import pytest
from k2_daily_brief.samples.news import stories
from k2_daily_brief.web import samples
from k2_daily_brief.web.app import app


async def get(path: str, headers: dict[str, str] | None = None) -> httpx.Response:
    async with httpx.AsyncClient(transport=httpx.ASGITransport(app), base_url="http://samples.example") as client:
        return await client.get(path, headers=headers)


@pytest.mark.parametrize("name", ["courier", "wire", "gazette", "slow"])
async def test_who_has_a_feed_already_is_told_304(name: str, now: datetime, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(samples, "SLOW_SECONDS", 0.1)
    monkeypatch.setattr(samples, "_now", lambda: now)
    path = f"/samples/{name}.xml"
    first = await get(path)
    etag, modified = first.headers["ETag"], first.headers["Last-Modified"]
    assert first.status_code == 200
    assert (await get(path, {"If-None-Match": etag})).status_code == 304
    assert (await get(path, {"If-None-Match": f'"other", W/{etag}'})).status_code == 304
    assert (await get(path, {"If-Modified-Since": modified})).status_code == 304
    assert (await get(path, {"If-None-Match": '"other"', "If-Modified-Since": modified})).status_code == 200
    assert (await get(path, {"If-Modified-Since": "yesterday"})).status_code == 200


async def test_the_huge_one_is_huge_and_the_broken_one_is_broken() -> None:
    assert len((await get("/samples/huge.xml")).content) > 2_000_000
    assert not (await get("/samples/broken.xml")).text.endswith("</rss>\n")
    assert (await get("/samples/nothing.xml")).status_code == 404


async def test_a_link_of_a_sample_leads_to_its_article() -> None:
    story = stories(datetime.now(UTC))[0]
    assert (await get(story.path)).status_code == 200
    assert (await get("/samples/articles/2026-11-15/nothing/courier")).status_code == 404
