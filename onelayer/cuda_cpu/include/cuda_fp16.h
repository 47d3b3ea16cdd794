#pragma once
#include "onelayer_cuda/half.h"
