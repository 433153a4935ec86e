"""crawler-site: a site of linked communities, invented, so that a first run needs no network."""
