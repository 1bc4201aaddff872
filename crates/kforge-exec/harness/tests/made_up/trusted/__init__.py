"""A device that is made up."""
