"""Components: one figure of `apviz.plots` on a page, the player, the cursor, the diagnosis, tables."""
