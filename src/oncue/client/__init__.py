"""oncue over HTTP: for services that enqueue jobs and look after them without the tasks' code, or the database.

    with Client("https://jobs.example", token="oncue_…") as client:
        receipt = client.enqueue("send_invoice", {"order_id": 7})

    async with AsyncClient() as client:  # ONCUE_URL and ONCUE_TOKEN
        receipt = await client.enqueue("send_invoice", {"order_id": 7})

A verb is a function from its arguments to a Request, which also knows how to read the answer; it does nothing else.
Both clients have the same verbs and differ only in how they wait. Whatever loses its answer is asked again, under the
same idempotency key: the server does it once.

jobs, queues, schedules,
webhooks, windows, cluster,
nodes, tokens, audit_log   the verbs, a file for each noun
verbs                      the list of them, and what makes a client's method of one
plain, awaiting, caller    the clients, and what both are made of
requests                   what is asked, in the words of the API
records, reading           what is answered, as values with real instants
refusals                   problem documents as the exceptions of the Python API
trying                     asking again, while that may help
servers                    which servers a request may go to, and where the leader is followed to
transport                  connections that are used more than once
"""
