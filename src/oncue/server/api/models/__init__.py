"""What requests and answers look like. Requests are checked by these; answers are written by `server/records.py`, and
the tests hold them against these.
"""
