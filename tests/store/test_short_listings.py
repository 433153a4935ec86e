"""Listings without what is large: the database does not ship it, and says how large it is."""

from __future__ import annotations

import json
from typing import Any

import pytest

from oncue.model import Failed, JobFilter, Succeeded
from oncue.store import Store
from oncue.store.statements import ERROR_END_SHOWN, ERROR_SHOWN, LARGEST_SHOWN
from tests.store.scene import a_batch, enter, settle, take

LARGE = {"text": "ä" * LARGEST_SHOWN}
SMALL = {"text": "x" * 100}
BYTES = len(json.dumps(LARGE, ensure_ascii=False).encode())


async def put(store: Store, args: dict[str, Any], **fields: Any) -> int:
    batch = a_batch(**fields)
    batch.args[0] = json.dumps(args, ensure_ascii=False)  # type: ignore[index]
    return (await store.jobs.enqueue([batch]))[0].id


@pytest.mark.parametrize(
    "wanted",
    [{}, {"states": ("queued",)}, {"key": "k"}, {"key": "k", "task": "send", "states": "unfinished"}],
)
async def test_large_arguments_are_left_out_and_their_size_is_told(store: Store, wanted: dict[str, Any]) -> None:
    if wanted.get("states") == "unfinished":
        wanted = {**wanted, "states": ("scheduled", "queued", "running", "retrying")}
    large = await put(store, LARGE, keys=["k"])
    (short,) = await store.jobs.find(JobFilter(**wanted, short=True))
    assert (short.id, short.args, short.shortened) == (large, {}, {"args": BYTES})
    (whole,) = await store.jobs.find(JobFilter(**wanted))
    assert (whole.args, whole.shortened) == (LARGE, None)
    found = await store.jobs.get(large)
    assert found is not None
    assert found.args == LARGE


async def test_what_is_small_is_there_as_it_is(store: Store) -> None:
    await put(store, SMALL)
    assert await store.jobs.find(JobFilter(short=True)) == await store.jobs.find(JobFilter())


async def test_results_and_errors_too(store: Store) -> None:
    node = await enter(store)
    await put(store, SMALL)
    await put(store, SMALL)
    result, error = json.dumps("r" * LARGEST_SHOWN), "e" * (LARGEST_SHOWN + 1)
    await settle(store, await take(store, node, 1), Succeeded(result))
    await settle(store, await take(store, node, 1), Failed(error))
    failed, succeeded = await store.jobs.find(JobFilter(short=True))
    (whole, _) = await store.jobs.find(JobFilter())
    assert (succeeded.result, succeeded.shortened) == (None, {"result": len(result)})
    assert whole.error is not None
    cut = f"{whole.error[:ERROR_SHOWN]}…{whole.error[-ERROR_END_SHOWN:]}"
    assert (failed.error, failed.shortened) == (cut, {"error": len(whole.error)})
    assert failed.args == SMALL
