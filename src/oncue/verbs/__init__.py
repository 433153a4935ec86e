"""What callers and operators do, by noun: `app.jobs`, `app.queues`, `app.schedules`, `app.nodes`, `app.tokens`,
`app.sessions` and `app.audit_log`. The shell, the API and the client have the same nouns and the same verbs.

Every change is conditional on what was read. A change by hand goes into the audit log, in the same statement: who it
was `by`, and what was before.

room        what all nouns stand on: the application behind them, and the loop of a compare-and-set
explaining  gathers the facts that `policy/explain` puts into words
"""
