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

static void on_signal(int number, siginfo_t *info, void *context) {
    sim_executor *x = sim_running;
    if (!x || !x->self || info->si_code <= 0) {
        hand_on(number, info, context);
        return;
    }
    const char *address = info->si_addr;
    const char *guard = x->self->memory;
    if (number == SIGFPE) {
        sim_stop(SIM_TRAP, "integer division by zero");
    } else if (number == SIGILL) {
        sim_stop(SIM_TRAP, "illegal instruction");
    } else if (address >= guard && address < guard + GUARD) {
        sim_stop(SIM_TRAP, "its stack of %zu KiB is full", x->self->stack >> 10);
    }
    sim_stop(SIM_ILLEGAL_ADDRESS, "access to %p without LD or ST", (const void *) address);
}

static void install(void) {
    for (size_t i = 0; i < CAUGHT; i++) {
        /* SA_NODEFER: the handler does not return where a fiber is stopped. */
        struct sigaction action = {.sa_sigaction = on_signal,
                                   .sa_flags = SA_SIGINFO | SA_ONSTACK | SA_NODEFER};
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
