"""Allows TF32 in float32 products for the whole process.

problem: linear_relu
expect: generation_failure/guardrail
expect-unguarded: mismatch/precision|mismatch/numeric|correct/framework_only
"""

import torch


torch.backends.cuda.matmul.allow_tf32 = True
torch.set_float32_matmul_precision("high")


class NewModel(torch.nn.Module):
    def __init__(self, in_features, out_features):
        super().__init__()
        self.fc = torch.nn.Linear(in_features, out_features)

    def forward(self, x):
        return torch.relu(self.fc(x))
