"""Instead of a search through the places where versions of Triton keep this."""

from triton.language.extra import libdevice


def libdevice_find(name: str) -> object:
    return getattr(libdevice, name)
