"""Runs in a sandbox, the supervisor as its first process; loads candidates, and knows no truth."""
