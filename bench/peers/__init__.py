"""Other job systems at their best documented settings, each in an environment of its own.

A peer's module runs in that environment, as a child process, and knows some of these verbs:
`fill ADDRESS JOBS`, `drain ADDRESS JOBS`, `pickup ADDRESS SAMPLES` and `feed ADDRESS SAMPLES`.
"""
