"""The application that is simulated. Whoever calls one of its handlers has misunderstood what a simulation is."""

from __future__ import annotations

from datetime import datetime

from oncue import Ladder, Oncue, cron

app = Oncue(name="bakery")


@app.task(queue="ovens", timeout="20m", retry=Ladder("1m", "5m"))
def bake(loaves: int) -> None:
    raise AssertionError("a handler was called")


@app.task(queue="counter", priority=20)
async def serve(customer: str) -> None:
    raise AssertionError("a handler was called")


@app.task(queue="ovens", process=True)
def knead(kilograms: float) -> None:
    raise AssertionError("a handler was called")


@app.task(schedule=cron("*/10 * * * *"), grace="2m")
def check_ovens(slot: datetime) -> None:
    raise AssertionError("a handler was called")


@app.task(schedule=cron("0 6 * * *"), grace="1h", delivery="at_most_once")
def open_doors() -> None:
    raise AssertionError("a handler was called")


@app.task(schedule=cron("@every 8h"), queue="counter")
def count_the_till() -> None:
    raise AssertionError("a handler was called")
