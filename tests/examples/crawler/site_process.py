"""The crawler's site, as a process of the nursery."""

from community_crawler.site.serve import main

main()
