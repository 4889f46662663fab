"""The server, and one session a visitor: address, screen, tabs, clock."""
