"""k2dailybrief-web: the page, and the sample feeds. It runs no job and no scheduler, however many processes it has."""
