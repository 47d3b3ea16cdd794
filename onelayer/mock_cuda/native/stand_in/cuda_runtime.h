// NCCL's header asks for this one, of which it needs the API alone; the rest needs files of nvcc.
#pragma once
#include <cuda_runtime_api.h>
