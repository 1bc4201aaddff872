"""The file ends in the middle of a string, as a reply that hit its token limit does.

problem: row_softmax
expect: generation_failure/syntax
"""

import kforge_rt
import torch
from torch import nn

SOURCE = r"""
#include <cmath>
extern "C" int softmax(const float* x, float* y
