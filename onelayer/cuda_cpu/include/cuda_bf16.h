#pragma once
#include "onelayer_cuda/bfloat16.h"
