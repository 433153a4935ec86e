"""The capacity planner: an application's own schedules and queues in virtual time, and what an operator learns from it.

`oncue simulate` is its face. Everything here but `running` is pure: values in, values or text out. The same scenario
gives the same output, byte for byte, since every throw of the dice depends on the seed and on what it is for.
"""
