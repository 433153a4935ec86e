"""The manifest: generations go up one by one, and each job has published one, however often it tried."""

from __future__ import annotations

import json
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from cluster_maintenance import manifest


def segment(number: int) -> dict[str, str]:
    return {"segment": f"segment-{number:06}.jsonl"}


def current(folder: Path) -> int:
    return int(json.loads((folder / manifest.CURRENT).read_text())["generation"])


@pytest.mark.contract("CLUS-9")
def test_what_is_published_again_under_the_same_uid_is_there_already(tmp_path: Path) -> None:
    first, is_new = manifest.publish(tmp_path, "a", {"by": "one"}, {"n1": segment(1), "n2": segment(1)})
    assert (first["generation"], is_new) == (1, True)
    again, is_new = manifest.publish(tmp_path, "a", {"by": "another"}, {"n1": segment(2)})
    assert (again, is_new) == (first, False)
    second, _ = manifest.publish(tmp_path, "b", {"by": "another"}, {"n1": segment(2)})
    assert (second["generation"], current(tmp_path)) == (2, 2)
    assert second["segments"] == {
        "n1": {**segment(2), "generation": 2}, "n2": {**segment(1), "generation": 1}
    }, "a node that did not take part keeps what it had"  # fmt: skip
    assert manifest.publish(tmp_path, "a", {}, {})[0] == first
    assert current(tmp_path) == 2, "a late one does not go back"


def test_of_many_that_publish_at_once_each_has_one_generation(tmp_path: Path) -> None:
    uids = [f"job-{number}" for number in range(12)] * 3
    with ThreadPoolExecutor(8) as pool:
        published = list(pool.map(lambda uid: manifest.publish(tmp_path, uid, {}, {}), uids))
    assert sum(is_new for _, is_new in published) == 12
    assert {generation["generation"] for generation, _ in published} == set(range(1, 13))
    by_uid = {generation["uid"]: generation["generation"] for generation, _ in published}
    assert all(by_uid[generation["uid"]] == generation["generation"] for generation, _ in published)
    assert current(tmp_path) == 12
    assert not list(tmp_path.glob("*.unfinished"))


def test_old_generations_are_evicted_and_the_numbers_go_on(tmp_path: Path) -> None:
    for number in range(7):
        manifest.publish(tmp_path, f"{number}", {}, {})
    assert len(manifest.evict(tmp_path, 5)) == 2
    assert manifest.evict(tmp_path, 5) == []
    assert manifest.publish(tmp_path, "next", {}, {})[0]["generation"] == 8
