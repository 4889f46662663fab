"""A figure on a page: the chart, its card, the film, the moment that all charts mark, the player."""
