"""crawler-web: the page, and oncue's API in the crawler's words. It runs no job."""
