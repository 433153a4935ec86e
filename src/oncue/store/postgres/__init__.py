"""oncue on PostgreSQL: any number of processes on any number of hosts."""
