"""The referee's work on a GPU: slots, results where a cell left them, the floor."""
