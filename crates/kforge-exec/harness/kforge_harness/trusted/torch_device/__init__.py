"""The referee's work on any device that torch knows: slots in memory of the host."""
