"""An application survives a fork: Gunicorn loads it, enqueues, and forks its workers."""

from __future__ import annotations

import json
import subprocess
import sys

import pytest

SCRIPT = """
import json, os, sys
from oncue import Oncue

app = Oncue(sys.argv[1])

@app.task
def work(n: int) -> None: ...

def enqueue(count):
    return [str(work.enqueue(n).uid) for n in range(count)] + [str(r.uid) for r in work.enqueue_many(range(count))]

uids = {"before": enqueue(3)} if sys.argv[2] == "warm" else {}
read, write = os.pipe()
child = os.fork()
if child == 0:
    with os.fdopen(write, "w") as pipe:
        pipe.write(json.dumps(enqueue(20)))
    app.close()
    os._exit(0)
os.close(write)
uids["parent"] = enqueue(20)
with os.fdopen(read) as pipe:
    uids["child"] = json.loads(pipe.read())
assert os.waitpid(child, 0)[1] == 0
uids["after"] = enqueue(3)
(queue,) = app.wait(app.queues.list())
app.close()
print(json.dumps({"uids": uids, "queued": queue.queued}))
"""


@pytest.mark.parametrize("start", ["warm", "cold"])
def test_parent_and_child_both_enqueue_and_no_uid_comes_twice(database_url: str, start: str) -> None:
    command = [sys.executable, "-c", SCRIPT, database_url, start]
    told = json.loads(subprocess.run(command, capture_output=True, text=True, check=True, timeout=60).stdout)
    uids = [uid for made in told["uids"].values() for uid in made]
    assert len(uids) == (92 if start == "warm" else 86)
    assert len(set(uids)) == len(uids)
    assert told["queued"] == len(uids)
