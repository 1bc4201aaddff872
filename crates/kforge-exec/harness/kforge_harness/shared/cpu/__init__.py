"""The processors of this machine: tensors are in the process's own memory."""
