/* SPDX-License-Identifier: BSD-2-Clause */
/* Guard, handlers and chain of guarded_copy.h; the probe at registration. */
#include "node/guarded_copy.h"

#include <assert.h>
#include <errno.h>
#include <pthread.h>
#include <setjmp.h>
#include <signal.h>
#include <stdatomic.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <ucontext.h>
#include <unistd.h>

#include "base/log.h"

/* About 1 us a page, so 16 ms at most. */
#define PROBE_LEN_MAX ((size_t)64 << 20)

enum way {
    WAY_PLAIN,   /* memcpy: nothing is registered yet, or nothing better is allowed */
    WAY_GUARDED, /* memcpy under the guard */
    WAY_KERNEL,  /* process_vm_readv from ourselves */
};

static _Atomic enum way way = WAY_PLAIN;

struct guard {
    sigjmp_buf *out;
    const uint8_t *dst;
    const uint8_t *src;
    size_t len;
};

/* initial-exec: the handler must not allocate, as the first touch of a lazy one could. */
static _Thread_local struct guard guard __attribute__((tls_model("initial-exec")));

static const int signals[] = {SIGSEGV, SIGBUS};
#define SIGNAL_COUNT (sizeof(signals) / sizeof(signals[0]))

static struct sigaction previous[SIGNAL_COUNT]; /* written before the handler is installed */

/* ThreadSanitizer's, when it is there: the application may write what we read; that race is RDMA.
 */
__attribute__((weak)) void AnnotateIgnoreReadsBegin(const char *file, int line);
__attribute__((weak)) void AnnotateIgnoreReadsEnd(const char *file, int line);
__attribute__((weak)) void AnnotateIgnoreWritesBegin(const char *file, int line);
__attribute__((weak)) void AnnotateIgnoreWritesEnd(const char *file, int line);

static void ignore_races(bool ignore)
{
    if (AnnotateIgnoreReadsBegin == NULL)
        return;
    if (ignore) {
        AnnotateIgnoreReadsBegin(__FILE__, __LINE__);
        AnnotateIgnoreWritesBegin(__FILE__, __LINE__);
    } else {
        AnnotateIgnoreWritesEnd(__FILE__, __LINE__);
        AnnotateIgnoreReadsEnd(__FILE__, __LINE__);
    }
}

/*
 * The bytes from the last aligned word of dst on go last, with one store where
 * they are a whole word: memcpy itself writes in any order.
 */
static inline void copy_ordered(uint8_t *dst, const uint8_t *src, size_t len)
{
    size_t tail_len = (((uintptr_t)dst + len - 1) & 7) + 1;

    if (len <= tail_len) {
        memcpy(dst, src, len);
        return;
    }
    memcpy(dst, src, len - tail_len);
    atomic_thread_fence(memory_order_release);
    if (tail_len == 8)
        memcpy(dst + len - 8, src + len - 8, 8);
    else
        memcpy(dst + len - tail_len, src + len - tail_len, tail_len);
}

static bool touches(const uint8_t *start, size_t len, const uint8_t *address)
{
    return (uintptr_t)address - (uintptr_t)start < len;
}

/* No address that a process can have on x86-64, where the processor does not say which it was. */
static bool leaves_user_space(const uint8_t *start, size_t len)
{
    return ((uintptr_t)start + len - 1) >> 47 != 0;
}

/* A fault that the kernel reports (not one sent by kill) on what this thread is copying. */
static bool fault_is_guarded(const siginfo_t *info)
{
    const uint8_t *address = info->si_addr;

    if (guard.out == NULL || info->si_code <= 0)
        return false;
    if (info->si_code == SI_KERNEL)
        return leaves_user_space(guard.dst, guard.len) || leaves_user_space(guard.src, guard.len);
    return touches(guard.dst, guard.len, address) || touches(guard.src, guard.len, address);
}

/* The default of both signals is to die of them, with a core of the place of the fault. */
static void die(int signal, const siginfo_t *info)
{
    struct sigaction by_default = {.sa_handler = SIG_DFL};

    sigaction(signal, &by_default, NULL);
    /* A fault happens again on return; a signal that was sent does not. */
    if (info->si_code <= 0)
        syscall(SYS_tgkill, getpid(), syscall(SYS_gettid), signal);
}

/* What would have happened without us. */
static void chain(struct sigaction *before, int signal, siginfo_t *info, void *context)
{
    struct sigaction then = *before;
    sigset_t mask = then.sa_mask;

    if ((then.sa_flags & SA_SIGINFO) == 0 && then.sa_handler == SIG_IGN && info->si_code <= 0)
        return;
    if ((then.sa_flags & SA_SIGINFO) == 0 &&
        (then.sa_handler == SIG_DFL || then.sa_handler == SIG_IGN)) {
        die(signal, info);
        return;
    }
    if ((then.sa_flags & (int)SA_RESETHAND) != 0)
        *before = (struct sigaction){.sa_handler = SIG_DFL};
    if ((then.sa_flags & SA_NODEFER) == 0)
        sigaddset(&mask, signal);
    /* Undone by the return from our handler, as the kernel undoes it for theirs. */
    pthread_sigmask(SIG_BLOCK, &mask, NULL);
    if ((then.sa_flags & SA_SIGINFO) != 0)
        then.sa_sigaction(signal, info, context);
    else
        then.sa_handler(signal);
}

static void on_fault(int signal, siginfo_t *info, void *context)
{
    int saved_errno = errno;

    if (fault_is_guarded(info)) {
        const ucontext_t *interrupted = context;
        sigjmp_buf *out = guard.out;

        guard.out = NULL;
        /* What sigsetjmp did not save, to be quick; a sanitizer blocks more here than we asked for.
         */
        pthread_sigmask(SIG_SETMASK, &interrupted->uc_sigmask, NULL);
        siglongjmp(*out, 1);
    }
    for (size_t i = 0; i < SIGNAL_COUNT; i++)
        if (signals[i] == signal)
            chain(&previous[i], signal, info, context);
    errno = saved_errno;
}

static bool handlers_are_ours(void)
{
    for (size_t i = 0; i < SIGNAL_COUNT; i++) {
        struct sigaction now;

        if (sigaction(signals[i], NULL, &now) != 0 || (now.sa_flags & SA_SIGINFO) == 0 ||
            now.sa_sigaction != on_fault)
            return false;
    }
    return true;
}

static void install(void)
{
    /* NODEFER: an earlier handler may want it so. ONSTACK: for threads with small stacks. */
    struct sigaction ours = {
        .sa_sigaction = on_fault,
        .sa_flags = SA_SIGINFO | SA_NODEFER | SA_ONSTACK | SA_RESTART,
    };

    sigemptyset(&ours.sa_mask);
    for (size_t i = 0; i < SIGNAL_COUNT; i++) {
        sigaction(signals[i], NULL, &previous[i]);
        sigaction(signals[i], &ours, NULL);
    }
    atomic_store(&way, handlers_are_ours() ? WAY_GUARDED : WAY_KERNEL);
}

void guarded_copy_install(void)
{
    static pthread_once_t once = PTHREAD_ONCE_INIT;

    pthread_once(&once, install);
}

void guarded_copy_check(void)
{
    enum way now = atomic_load_explicit(&way, memory_order_relaxed);

    if (now == WAY_PLAIN)
        return;
    if (handlers_are_ours()) {
        atomic_store(&way, WAY_GUARDED);
    } else if (now == WAY_GUARDED) {
        log_info("the program handles SIGSEGV or SIGBUS itself: copies go through the kernel");
        atomic_store(&way, WAY_KERNEL);
    }
}

static int copy_guarded(uint8_t *dst, const uint8_t *src, size_t len)
{
    sigjmp_buf out;

    /* ThreadSanitizer forgets what was to be ignored when a handler is left this way. */
    if (sigsetjmp(out, 0) != 0)
        return -EFAULT;
    guard.dst = dst;
    guard.src = src;
    guard.len = len;
    ignore_races(true);
    atomic_signal_fence(memory_order_seq_cst);
    *(sigjmp_buf *volatile *)&guard.out = &out;
    atomic_signal_fence(memory_order_seq_cst);
    copy_ordered(dst, src, len);
    atomic_signal_fence(memory_order_seq_cst);
    *(sigjmp_buf *volatile *)&guard.out = NULL;
    ignore_races(false);
    return 0;
}

/* Read from ourselves and not written to: memcheck knows then that dst has been written. */
static int copy_by_kernel(uint8_t *dst, const uint8_t *src, size_t len)
{
    const struct iovec from = {(void *)(uintptr_t)src, len};
    const struct iovec to = {dst, len};
    ssize_t copied = process_vm_readv(getpid(), &to, 1, &from, 1, 0);

    if (copied == (ssize_t)len)
        return 0;
    if (copied >= 0 || errno == EFAULT)
        return -EFAULT;
    /* Forbidden here: then the program that took the handlers has to live with what it gets. */
    log_warn("process_vm_readv is refused (%s): memory that goes away while registered will "
             "end the program",
             strerror(errno));
    atomic_store(&way, WAY_PLAIN);
    copy_ordered(dst, src, len);
    return 0;
}

int guarded_copy(void *dst, const void *src, size_t len)
{
    if (len == 0)
        return 0;
    switch (atomic_load_explicit(&way, memory_order_relaxed)) {
    case WAY_GUARDED:
        return copy_guarded(dst, src, len);
    case WAY_KERNEL:
        return copy_by_kernel(dst, src, len);
    case WAY_PLAIN:
        break;
    }
    copy_ordered(dst, src, len);
    return 0;
}

static int bring_in(uintptr_t start, size_t len, int advice)
{
    int result;

    do
        result = madvise((void *)start, len, advice);
    while (result != 0 && (errno == EINTR || errno == EAGAIN));
    return result == 0 ? 0 : -errno;
}

/* Before Linux 5.14 nothing but a copy shows what the memory allows. */
static bool kernel_populates(int advice)
{
    static uint8_t page[2 * 65536];
    const uintptr_t page_len = (uintptr_t)sysconf(_SC_PAGESIZE);

    return bring_in(((uintptr_t)page + page_len - 1) & ~(page_len - 1), page_len, advice) == 0;
}

static int populate(uintptr_t start, size_t len, bool writable)
{
    int advice = writable ? MADV_POPULATE_WRITE : MADV_POPULATE_READ;
    int error = bring_in(start, len, advice);

    if (error == -EINVAL && !kernel_populates(advice))
        return 0;
    return error != 0 ? -EFAULT : 0;
}

int guarded_probe(const void *base, size_t len, bool writable)
{
    const uintptr_t page = (uintptr_t)sysconf(_SC_PAGESIZE);
    const uintptr_t first = (uintptr_t)base & ~(page - 1);
    uintptr_t last;
    int error;

    guarded_copy_install();
    if (len == 0)
        return 0;
    if (len - 1 > UINTPTR_MAX - (uintptr_t)base)
        return -EINVAL;
    last = ((uintptr_t)base + len - 1) & ~(page - 1);
    /* For Linux this checks the mappings of the whole range and does nothing more. */
    if (msync((void *)first, last - first + page, MS_ASYNC) != 0)
        return -EFAULT;
    if (last - first < PROBE_LEN_MAX)
        return populate(first, last - first + page, writable);
    error = populate(first, page, writable);
    return error != 0 ? error : populate(last, page, writable);
}
