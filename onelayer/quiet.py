"""Keeps off the page three sentences of torch's that no page asks about.

On a machine with a CUDA compiler and no GPU, such as the login node of a cluster, a CUDA build of
torch writes "No CUDA runtime is found" to stderr as soon as anything imports
`torch.utils.cpp_extension`; `torch.utils.benchmark.Timer` does
(https://github.com/pytorch/pytorch/blob/v2.13.0/torch/utils/cpp_extension.py, `_find_cuda_home`).

On Python 3.13.0, and on no other patch of it, Dynamo warns that its guards may be slow
(https://github.com/pytorch/pytorch/blob/v2.13.0/torch/_dynamo/guards.py,
`_get_generic_dict_manager_example_value`).

On a GPU with tensor cores, Inductor warns of the first float32 product that TF32 is not enabled
(https://github.com/pytorch/pytorch/blob/v2.13.0/torch/_inductor/compile_fx.py,
`_warn_tf32_disabled`). The course's numbers are float32's.
"""

import logging
import warnings

ASIDE = "No CUDA runtime is found"
NO_TF32 = "TensorFloat32 tensor cores for float32 matrix multiplication available but not enabled"
SLOW_GUARDS = "Guards may run slower on Python 3.13.0"


def keep_quiet() -> None:
    """From now on torch leaves out these sentences, and nothing else."""
    warnings.filterwarnings("ignore", message=SLOW_GUARDS, category=RuntimeWarning)
    warnings.filterwarnings("ignore", message=NO_TF32, category=UserWarning)
    logger = logging.getLogger("torch.utils.cpp_extension")
    if is_said not in logger.filters:
        logger.addFilter(is_said)


def is_said(record: logging.LogRecord) -> bool:
    """Whether `record` may pass."""
    return not str(record.msg).startswith(ASIDE)
