"""Is everything as it should be, and if not, what to do? `oncue doctor` and the dashboard tell it.

findings    what is looked at, and what is said of it
checks      what can be wrong, one function per question
cluster     what can be in the way of cluster jobs
webhooks    what can be wrong with webhooks
examining   looks at the database, and asks all of these
effective   the settings as they may be shown, and where each came from
"""
