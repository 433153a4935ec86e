"""Sample feeds: invented news, so that a first run needs no network."""
