"""event_clustering: the same event in other words is one cluster, and doing it again changes nothing."""

from __future__ import annotations

import os
import random
import signal
import subprocess
import sys
import threading
from collections import defaultdict
from datetime import datetime, timedelta

import numpy as np
import pytest
from k2_daily_brief import clustering
from k2_daily_brief.clustering import ClusterReport, cluster
from k2_daily_brief.samples.news import Story, stories
from k2_daily_brief.settings import Settings
from k2_daily_brief.similarity import WINDOW, Text, assign, vectors
from sqlalchemy import Engine

from tests.examples.conftest import ROOT, SOURCE, empty
from tests.examples.newsroom import Draft, add, check, clusters, drafts, everything

THRESHOLD = Settings(feeds=()).similarity


def told_together(told: list[Story]) -> set[frozenset[str]]:
    """The clusters that a reader would make."""
    found = defaultdict(set)
    for story in told:
        found[story.event].add(f"http://x.example{story.path}")
    return {frozenset(urls) for urls in found.values()}


def days(now: datetime) -> list[list[Story]]:
    return [stories(now + timedelta(days=day)) for day in range(3)]


# --- similarity -------------------------------------------------------------------------------------------------------


def similarities(told: list[Story]) -> tuple[list[float], list[float]]:
    """How near each story is to the earlier ones of its own event, and to those of each other event."""
    matrix = vectors([f"{story.title}\n{story.summary}" for story in told])
    cosines = (matrix @ matrix.T).toarray()
    own: list[float] = []
    other: list[float] = []
    for row, story in enumerate(told):
        for event in {earlier.event for earlier in told[:row]}:
            members = [column for column in range(row) if told[column].event == event]
            length = np.sqrt(cosines[np.ix_(members, members)].sum())
            (own if event == story.event else other).append(cosines[row, members].sum() / length)
    return own, other


@pytest.mark.contract("SLOT-14")
def test_the_threshold_lies_in_the_gap(now: datetime) -> None:
    """Each day alone and all three together, told in many orders: the figures that the README gives."""
    dice = random.Random(1)
    editions = days(now)
    own, other = [], []
    for told in [*editions, [story for edition in editions for story in edition]]:
        for _ in range(20):
            found = similarities(told)
            own += found[0]
            other += found[1]
            dice.shuffle(told)
    assert max(other) < 0.19 < THRESHOLD < 0.235 < min(own), (max(other), min(own))


def test_of_two_clusters_equally_near_the_first_is_taken(now: datetime) -> None:
    placed = [Text(1, "red fox", now, 7), Text(2, "red fox", now, 8)]
    (choice,) = assign(placed, [Text(3, "red fox", now)], THRESHOLD)
    assert (choice.cluster_id, choice.founder_id) == (7, None)


def test_articles_without_words_stand_alone(now: datetime) -> None:
    choices = assign([], [Text(1, "", now), Text(2, "…", now), Text(3, "the and of", now)], THRESHOLD)
    assert [choice.founder_id for choice in choices] == [1, 2, 3]


def test_news_too_far_apart_is_not_the_same_event(now: datetime) -> None:
    placed = [Text(1, "harbour festival opens", now, 7)]
    late = Text(2, "harbour festival opens", now + WINDOW + timedelta(seconds=1))
    early = Text(3, "harbour festival opens", now - WINDOW - timedelta(seconds=1))
    in_time = Text(4, "harbour festival opens", now + WINDOW)
    assert [assign(placed, [text], THRESHOLD)[0].cluster_id for text in (late, early, in_time)] == [None, None, 7]


# --- the job ----------------------------------------------------------------------------------------------------------


@pytest.mark.contract("SLOT-14")
def test_the_same_event_told_by_several_outlets_is_one_cluster(engine: Engine, now: datetime) -> None:
    for edition in days(now):
        add(engine, drafts(edition))
        cluster(engine, THRESHOLD)
    assert clusters(engine) == set().union(*(told_together(edition) for edition in days(now)))
    check(engine)


@pytest.mark.contract("SLOT-14")
def test_running_it_twice_changes_nothing(engine: Engine, now: datetime) -> None:
    add(engine, drafts(stories(now)))
    first = cluster(engine, THRESHOLD)
    assert first.linked == len(stories(now))
    before = everything(engine)
    assert cluster(engine, THRESHOLD) == ClusterReport(0, 0)
    assert everything(engine) == before


@pytest.mark.contract("SLOT-14")
def test_only_what_is_new_is_placed_and_what_is_placed_stays(engine: Engine, now: datetime) -> None:
    edition = stories(now)
    for outlet in ("courier", "wire", "gazette", "ledger"):
        before = {row.raw_article_id: row.cluster_id for row in everything(engine)["cluster_articles"]}
        new = [story for story in edition if story.outlet == outlet]
        add(engine, drafts(new))
        assert cluster(engine, THRESHOLD).linked == len(new)
        after = {row.raw_article_id: row.cluster_id for row in everything(engine)["cluster_articles"]}
        assert before.items() <= after.items()
        check(engine)
    assert clusters(engine) == told_together(edition)


@pytest.mark.contract("SLOT-14")
def test_the_order_of_arrival_in_the_table_does_not_matter(engine: Engine, now: datetime) -> None:
    articles = drafts([story for edition in days(now) for story in edition])
    found = []
    for seed in range(3):
        random.Random(seed).shuffle(articles)
        add(engine, articles)
        cluster(engine, THRESHOLD)
        found.append(clusters(engine))
        empty(engine)
    assert found[0] == found[1] == found[2]


@pytest.mark.contract("SLOT-14")
def test_many_articles_go_in_several_steps(engine: Engine, now: datetime, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(clustering, "STEP", 4)
    add(engine, drafts(stories(now)))
    assert cluster(engine, THRESHOLD).linked == len(stories(now))
    assert clusters(engine) == told_together(stories(now))
    check(engine)


@pytest.mark.contract("SLOT-14")
def test_two_at_once_place_each_article_once(engine: Engine, now: datetime, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(clustering, "STEP", 3)
    add(engine, drafts(stories(now)))
    reports: list[ClusterReport] = []
    threads = [threading.Thread(target=lambda: reports.append(cluster(engine, THRESHOLD))) for _ in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    cluster(engine, THRESHOLD)
    assert sum(report.linked for report in reports) <= len(stories(now))
    assert sum(len(urls) for urls in clusters(engine)) == len(stories(now))
    check(engine)


def test_a_cluster_that_is_gone_meanwhile_leaves_its_article_for_the_next_run(engine: Engine, now: datetime) -> None:
    (article,) = add(engine, [Draft("Harbour festival opens", now)])
    (choice,) = assign([], [Text(article, "Harbour festival opens", now)], THRESHOLD)
    gone = choice._replace(cluster_id=999, founder_id=None)
    assert clustering.write(engine, [gone]) == ClusterReport(0, 0)
    assert cluster(engine, THRESHOLD) == ClusterReport(1, 1)
    check(engine)


KILLED = """
import os, signal, sys
from k2_daily_brief import clustering, database

count = clustering._count
links = 0

def killed(*arguments):
    global links
    links += 1
    if links == int(sys.argv[2]):
        os.kill(os.getpid(), signal.SIGKILL)
    count(*arguments)

clustering.STEP = 5
clustering._count = killed
clustering.cluster(database.connect(sys.argv[1]), float(sys.argv[3]))
"""


@pytest.mark.contract("SLOT-14")
def test_killed_between_a_link_and_its_count_whole_steps_are_left(
    engine: Engine, brief_url: str, now: datetime
) -> None:
    add(engine, drafts(stories(now)))
    environment = {**os.environ, "PYTHONPATH": f"{SOURCE}:{ROOT / 'src'}"}
    killed = subprocess.run([sys.executable, "-c", KILLED, brief_url, "8", str(THRESHOLD)], env=environment)
    assert killed.returncode == -signal.SIGKILL
    check(engine)
    assert sum(len(urls) for urls in clusters(engine)) == 5
    cluster(engine, THRESHOLD)
    assert clusters(engine) == told_together(stories(now))
    check(engine)
