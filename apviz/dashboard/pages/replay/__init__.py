"""The page Replay: one solve or two, update by update."""
