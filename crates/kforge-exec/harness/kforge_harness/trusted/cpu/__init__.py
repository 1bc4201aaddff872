"""The referee's work on this machine's processors."""
