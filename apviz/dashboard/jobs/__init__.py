"""Jobs: work in threads, which never touches a page, and the bar that shows its progress."""
