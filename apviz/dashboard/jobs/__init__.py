"""Work in threads, which never touch a page, and the bar that shows how it stands."""
