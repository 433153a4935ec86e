"""What stands behind an `Oncue`: its connections, how calls become jobs, how a worker is put together."""
