/* fiber.c: stacks for the threads of a block, switched by hand (x86-64).
 *
 *   memory ┌──────┬─────────────────────────────┐
 *          │guard │            stack ◄── grows  │
 *          └──────┴─────────────────────────────┘ */
#include "exec.h"
#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <ucontext.h>

enum { GUARD = 4096, SIGNAL_STACK = 64 << 10 };

/* Push what a function has to preserve, change stacks, pop it, return there. */
void sim_switch(void **save, void *to);
__asm__(".text\n"
        ".globl sim_switch\n"
        ".hidden sim_switch\n"
        ".type sim_switch, @function\n"
        "sim_switch:\n"
        "    push %rbp\n"
        "    push %rbx\n"
        "    push %r12\n"
        "    push %r13\n"
        "    push %r14\n"
        "    push %r15\n"
        "    mov %rsp, (%rdi)\n"
        "    mov %rsi, %rsp\n"
        "    pop %r15\n"
        "    pop %r14\n"
        "    pop %r13\n"
        "    pop %r12\n"
        "    pop %rbx\n"
        "    pop %rbp\n"
        "    ret\n"
        ".size sim_switch, .-sim_switch\n");

static sim_fiber *fiber_create(size_t stack) {
    sim_fiber *f = calloc(1, sizeof *f);
    void *memory = mmap(NULL, GUARD + stack, PROT_READ | PROT_WRITE,
                        MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (!f || memory == MAP_FAILED || mprotect(memory, GUARD, PROT_NONE)) {
        if (memory != MAP_FAILED) {
            munmap(memory, GUARD + stack);
        }
        free(f);
        return NULL;
    }
    f->memory = memory;
    f->stack = stack;
    return f;
}

sim_fiber *sim_fiber_start(sim_executor *x, size_t stack, void (*entry)(void)) {
    sim_fiber **idle = &x->idle;
    while (*idle && (*idle)->stack != stack) {
        idle = &(*idle)->next;
    }
    sim_fiber *f = *idle;
    if (f) {
        *idle = f->next;
    } else {
        f = fiber_create(stack);
    }
    if (!f) {
        return NULL;
    }
    void **top = (void **) (void *) (f->memory + GUARD + stack);
    *--top = NULL; /* where `entry` would return to: keeps the stack aligned as after a call */
    *--top = (void *) (uintptr_t) entry;
    top -= 6; /* the registers that sim_switch pops */
    memset(top, 0, 6 * sizeof *top);
    *f = (sim_fiber) {.memory = f->memory, .stack = stack, .stack_pointer = top};
    return f;
}

void sim_fiber_end(sim_executor *x, sim_fiber *f) {
    f->next = x->idle;
    x->idle = f;
}

void sim_fiber_free(sim_fiber *f) {
    munmap(f->memory, GUARD + f->stack);
    free(f);
}

void sim_resume(sim_executor *x, sim_fiber *f) {
    x->self = f;
    sim_switch(&x->scheduler, f->stack_pointer);
    x->self = NULL;
}

void sim_suspend(sim_executor *x) {
    sim_switch(&x->self->stack_pointer, x->scheduler);
}

/* ---- Signals ---- */

static const int caught[] = {SIGSEGV, SIGBUS, SIGFPE, SIGILL};
enum { CAUGHT = sizeof caught / sizeof *caught };
static struct sigaction before[CAUGHT];

/* Not ours: as if this handler had not been there. */
static void hand_on(int number, siginfo_t *info, void *context) {
    for (size_t i = 0; i < CAUGHT; i++) {
        if (caught[i] != number) {
            continue;
        }
        if (before[i].sa_flags & SA_SIGINFO) {
            before[i].sa_sigaction(number, info, context);
        } else {
            sigaction(number, &before[i], NULL); /* the access is made again, and strikes there */
        }
    }
}

/* Where a fiber goes on that did wrong, at the top of its stack, which nobody needs any more. */
_Noreturn static void stop_bad_fiber(void) {
    const sim_executor *x = sim_running;
    uint64_t guard = (uint64_t) (uintptr_t) x->self->memory;
    if (x->signal == SIGFPE) {
        sim_stop(SIM_TRAP, "integer division by zero");
    } else if (x->signal == SIGILL) {
        sim_stop(SIM_TRAP, "illegal instruction");
    } else if (x->signal_address - guard < GUARD) {
        sim_stop(SIM_TRAP, "its stack of %zu KiB is full", x->self->stack >> 10);
    }
    sim_stop(SIM_ILLEGAL_ADDRESS, "access to %#llx without LD or ST",
             (unsigned long long) x->signal_address);
}

/* The handler returns as any other does (sanitizers keep count), but to elsewhere. */
static void on_signal(int number, siginfo_t *info, void *context) {
    sim_executor *x = sim_running;
    if (!x || !x->self || info->si_code <= 0) {
        hand_on(number, info, context);
        return;
    }
    x->signal = number;
    x->signal_address = (uint64_t) (uintptr_t) info->si_addr;
    greg_t *registers = ((ucontext_t *) context)->uc_mcontext.gregs;
    uint64_t top = (uint64_t) (uintptr_t) (x->self->memory + GUARD + x->self->stack);
    registers[REG_RIP] = (greg_t) (uintptr_t) stop_bad_fiber;
    registers[REG_RSP] = (greg_t) (top - sizeof(void *)); /* as after a call */
}

static void install(void) {
    for (size_t i = 0; i < CAUGHT; i++) {
        struct sigaction action = {.sa_sigaction = on_signal, .sa_flags = SA_SIGINFO | SA_ONSTACK};
        sigaction(caught[i], &action, &before[i]);
    }
}

/* A full stack has no room for the handler. */
static void ensure_signal_stack(sim_executor *x) {
    stack_t have;
    if (sigaltstack(NULL, &have) || !(have.ss_flags & SS_DISABLE)) {
        return;
    }
    if (!x->signal_stack) {
        x->signal_stack = malloc(SIGNAL_STACK);
    }
    if (x->signal_stack) {
        stack_t own = {.ss_sp = x->signal_stack, .ss_size = SIGNAL_STACK};
        sigaltstack(&own, NULL);
    }
}

void sim_catch_signals(sim_executor *x) {
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    pthread_once(&once, install);
    ensure_signal_stack(x);
}

void sim_signal_stack_free(sim_executor *x) {
    stack_t have;
    if (sigaltstack(NULL, &have) == 0 && have.ss_sp == x->signal_stack) {
        sigaltstack(&(stack_t) {.ss_flags = SS_DISABLE}, NULL);
    }
    free(x->signal_stack);
}
