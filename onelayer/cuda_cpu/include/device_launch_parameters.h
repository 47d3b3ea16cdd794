#pragma once
#include "onelayer_cuda.h"
