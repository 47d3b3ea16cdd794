// Runs the blocks of a launch one after another, on one processor, and watches them.
//
// ONELAYER_CHECK    the student's file was compiled with calls before each load and store
// ONELAYER_THREADS  a CUDA thread is a thread of the operating system, not a fiber
// ONELAYER_THREAD_SANITIZER, and TSan looks on
// ONELAYER_PORTABLE fibers switch by setjmp, not by this file's own assembly
#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#define ONELAYER_RUNTIME
#include <elf.h>
#include <link.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>

#include <string.h>

#include "onelayer_cuda/vectors.h"
#include "onelayer_cuda/keywords.h"
#include "onelayer_cuda/host_api.h"
#include "onelayer_cuda/sync.h"

#include "report.h"
#include "block.h"
#ifdef ONELAYER_THREADS
#include "threads.h"
#else
#include "context.h"
#include "fibers.h"
#endif
#include "warp.h"
#include "barrier.h"
#include "regions.h"
#include "races.h"
#include "shared.h"
#include "undefined.h"
#ifdef ONELAYER_CHECK
#include "trace.h"
#else
#include "unwatched.h"
#endif
#include "launches.h"
#ifdef ONELAYER_CHECK
#include "leaks.h"
#endif
#include "host.h"
