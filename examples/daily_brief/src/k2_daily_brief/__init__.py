"""K2 Daily Brief: news from many feeds, grouped by event, on one page. Built on oncue."""
