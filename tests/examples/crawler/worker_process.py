"""A worker of the crawler, as a process of the nursery."""

from community_crawler.worker import main

main()
