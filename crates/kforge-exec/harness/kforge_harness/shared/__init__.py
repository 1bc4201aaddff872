"""What both sides use: messages, layouts, the device of a process. Imports neither side."""
