"""The capacity planner behind `oncue simulate`: an application's schedules and queues in virtual time, and the figures.

Everything here but `running` is pure: values in, values or text out. The same scenario gives the same output, byte for
byte, since every random number depends on the seed and on what it is for.
"""
