// One stack left, another taken up: the few registers that a function must keep for its caller.
#pragma once

#if !defined(ONELAYER_PORTABLE) && (defined(__x86_64__) || defined(__aarch64__))
struct Context {
    void* stack;
};
extern "C" void onelayer_switch(void** save, void* take);

#if defined(__APPLE__)
#define SYMBOL "_onelayer_switch"
#define HIDDEN ".private_extern " SYMBOL "\n"
#else
#define SYMBOL "onelayer_switch"
#define HIDDEN ".hidden " SYMBOL "\n"
#endif

#if defined(__x86_64__)
static constexpr int SAVED = 7, RETURN = 6;  // words on the stack, and which is the return address
asm(".text\n.globl " SYMBOL "\n" HIDDEN SYMBOL ":\n"
    "pushq %rbp\n pushq %rbx\n pushq %r12\n pushq %r13\n pushq %r14\n pushq %r15\n"
    "movq %rsp, (%rdi)\n movq %rsi, %rsp\n"
    "popq %r15\n popq %r14\n popq %r13\n popq %r12\n popq %rbx\n popq %rbp\n ret\n");
#else
static constexpr int SAVED = 20, RETURN = 11;
asm(".text\n.p2align 2\n.globl " SYMBOL "\n" HIDDEN SYMBOL ":\n"
    "sub sp, sp, #160\n"
    "stp x19, x20, [sp, #0]\n stp x21, x22, [sp, #16]\n stp x23, x24, [sp, #32]\n"
    "stp x25, x26, [sp, #48]\n stp x27, x28, [sp, #64]\n stp x29, x30, [sp, #80]\n"
    "stp d8, d9, [sp, #96]\n stp d10, d11, [sp, #112]\n"
    "stp d12, d13, [sp, #128]\n stp d14, d15, [sp, #144]\n"
    "mov x9, sp\n str x9, [x0]\n mov sp, x1\n"
    "ldp x19, x20, [sp, #0]\n ldp x21, x22, [sp, #16]\n ldp x23, x24, [sp, #32]\n"
    "ldp x25, x26, [sp, #48]\n ldp x27, x28, [sp, #64]\n ldp x29, x30, [sp, #80]\n"
    "ldp d8, d9, [sp, #96]\n ldp d10, d11, [sp, #112]\n"
    "ldp d12, d13, [sp, #128]\n ldp d14, d15, [sp, #144]\n"
    "add sp, sp, #160\n ret\n");
#endif

static void prepare(Context& context, char* low, size_t bytes, void (*body)()) {
    uintptr_t top = ((uintptr_t)low + bytes) & ~(uintptr_t)63;
    void** stack = (void**)top - 8 - SAVED;
    memset(stack, 0, (char*)top - (char*)stack);
#if defined(__x86_64__)  // a function is entered with the stack 8 bytes off a multiple of 16
    stack = (void**)top - 1 - SAVED;
    memset(stack, 0, (char*)top - (char*)stack);
#endif
    stack[RETURN] = (void*)body;
    context.stack = stack;
}

static inline void switch_context(Context& from, Context& to) {
    onelayer_switch(&from.stack, to.stack);
}

#else  // slower, and everywhere
#include <ucontext.h>
struct Context {
    jmp_buf registers;
    ucontext_t beginning;
    bool begun;
};

static void prepare(Context& context, char* low, size_t bytes, void (*body)()) {
    getcontext(&context.beginning);
    context.beginning.uc_stack.ss_sp = low;
    context.beginning.uc_stack.ss_size = bytes;
    context.beginning.uc_link = nullptr;
    makecontext(&context.beginning, body, 0);
    context.begun = false;
}

static void switch_context(Context& from, Context& to) {
    from.begun = true;
    if (_setjmp(from.registers)) return;
    if (to.begun) _longjmp(to.registers, 1);
    to.begun = true;
    setcontext(&to.beginning);
}
#endif
