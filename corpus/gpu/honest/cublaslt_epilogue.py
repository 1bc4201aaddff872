"""Product, bias and ReLU in one call of cuBLASLt, which the candidate links itself.

problem: linear_relu
expect: correct
"""

import kforge_rt
import torch

SOURCE = r"""
#include <cublasLt.h>
#include <cuda_runtime.h>
#include <cstdint>

// Apart from CUDA's own numbers, so that no status is taken for one of them.
static int failed(cublasStatus_t status) { return status == CUBLAS_STATUS_SUCCESS ? 0 : 10000 + (int)status; }

// The library counts columns first. What lies here as x (m by k), w (n by k) and y (m by n) row by row is to it x (k by m),
// w (k by n) and y (n by m), and y is w turned times x.
extern "C" int linear_relu(const float* x, const float* w, const float* b, float* y, int64_t m, int64_t n, int64_t k,
                           void* stream) {
  static cublasLtHandle_t handle = nullptr;
  if (handle == nullptr) {
    if (const int code = failed(cublasLtCreate(&handle))) return code;
  }
  const cublasOperation_t turned = CUBLAS_OP_T;
  const cublasLtEpilogue_t tail = CUBLASLT_EPILOGUE_RELU_BIAS;
  cublasLtMatmulDescOpaque_t product;
  cublasLtMatrixLayoutOpaque_t w_layout, x_layout, y_layout;
  const cublasStatus_t described[] = {
      cublasLtMatmulDescInit(&product, CUBLAS_COMPUTE_32F, CUDA_R_32F),
      cublasLtMatmulDescSetAttribute(&product, CUBLASLT_MATMUL_DESC_TRANSA, &turned, sizeof(turned)),
      cublasLtMatmulDescSetAttribute(&product, CUBLASLT_MATMUL_DESC_EPILOGUE, &tail, sizeof(tail)),
      cublasLtMatmulDescSetAttribute(&product, CUBLASLT_MATMUL_DESC_BIAS_POINTER, &b, sizeof(b)),
      cublasLtMatrixLayoutInit(&w_layout, CUDA_R_32F, k, n, k),
      cublasLtMatrixLayoutInit(&x_layout, CUDA_R_32F, k, m, k),
      cublasLtMatrixLayoutInit(&y_layout, CUDA_R_32F, n, m, n),
  };
  for (const cublasStatus_t status : described)
    if (const int code = failed(status)) return code;
  const float one = 1.0f, zero = 0.0f;
  // Without an algorithm the library chooses one, which then needs no workspace.
  return failed(cublasLtMatmul(handle, &product, &one, w, &w_layout, x, &x_layout, &zero, y, &y_layout, y, &y_layout,
                               nullptr, nullptr, 0, (cudaStream_t)stream));
}
"""
LIB = kforge_rt.build(SOURCE, lang="cuda", libs=["cublasLt"])


class NewModel(torch.nn.Module):
    def __init__(self, in_features, out_features):
        super().__init__()
        self.fc = torch.nn.Linear(in_features, out_features)

    def forward(self, x):
        m, k = x.shape
        n = self.fc.out_features
        y = torch.empty(m, n, device=x.device)
        LIB.linear_relu(x, self.fc.weight, self.fc.bias, y, m, n, k)
        return y
