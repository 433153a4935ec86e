"""Tasks that run in processes of their own: where their code is, and the program that runs it.

code_places  how a worker names the code of a task, and how a child process finds it again
child        the program of a child process
"""
