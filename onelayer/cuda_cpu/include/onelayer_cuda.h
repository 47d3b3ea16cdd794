// What a student's .cu file sees in the place of CUDA's own headers. Every piece is one file.
#pragma once
#include <stddef.h>
#include "onelayer_cuda/watched.h"

#include <math.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#include "onelayer_cuda/vectors.h"
#include "onelayer_cuda/keywords.h"

#include <string.h>

#include "onelayer_cuda/host_api.h"
#include "onelayer_cuda/launch.h"
#include "onelayer_cuda/sync.h"
#include "onelayer_cuda/atomics.h"
#include "onelayer_cuda/device_math.h"
#include "onelayer_cuda/cache_hints.h"
