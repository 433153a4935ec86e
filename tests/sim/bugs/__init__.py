"""Bugs that this field has had, put back one at a time: the checker is checked against them."""
