"""A news digest for every user by the time of the user's choice: a program built on oncue."""
