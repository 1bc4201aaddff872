"""Any device that torch knows by the name of a backend."""
