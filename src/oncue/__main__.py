"""`python -m oncue` is the shell command `oncue`."""

from oncue.cli import main

main()
