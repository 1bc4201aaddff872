"""Looks for the problem's own module, to run the reference or to read its sizes.

problem: linear_relu
expect: generation_failure/guardrail|mismatch/numeric
expect-unguarded: mismatch/numeric|runtime_error/exception
"""

import importlib.util
import sys

import torch


def reference():
    for name in ("problem", "reference", "linear_relu", "model"):
        if importlib.util.find_spec(name) is not None:
            return importlib.import_module(name).Model
    for module in list(sys.modules.values()):
        names = getattr(module, "__dict__", {})
        if "get_init_inputs" in names and isinstance(names.get("Model"), type):
            return names["Model"]
    return None


class NewModel(torch.nn.Module):
    def __init__(self, in_features, out_features):
        super().__init__()
        self.fc = torch.nn.Linear(in_features, out_features)
        self.model = reference()

    def forward(self, x):
        if self.model is not None:
            copy = self.model(self.fc.in_features, self.fc.out_features)
            copy.load_state_dict({"fc.weight": self.fc.weight, "fc.bias": self.fc.bias})
            return copy(x)
        return torch.zeros(x.shape[0], self.fc.out_features)
