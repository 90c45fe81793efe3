/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The only way in which memory of the application is touched. A registered
 * region may be unmapped, made read-only or cut off its file at any time; an
 * adapter would then report an error, and so do we, instead of dying.
 *
 * A copy runs under a guard that SIGSEGV and SIGBUS handlers look for; faults
 * that are not of a guarded copy of the same thread go to whoever had the
 * signal before. Where the application has put its own handlers in the place of ours,
 * the kernel copies for us (process_vm_readv), which is slower.
 */
#ifndef UROCE_NODE_GUARDED_COPY_H
#define UROCE_NODE_GUARDED_COPY_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/*
 * Copies len bytes between memory of ours and memory of the application, in
 * either direction; they do not overlap. The last aligned eight bytes of dst are written last, so a
 * program that watches them finds all before them in place. Returns 0, or
 * -EFAULT when a part is not there (what was written before it stays).
 */
int guarded_copy(void *dst, const void *src, size_t len);

/*
 * Whether [base, base + len) may be registered: mapped, and with writable
 * also writable. Brings up to 64 MiB of it into memory, as an adapter would
 * pin it; of larger regions the ends. Returns 0; -EFAULT; -EINVAL when the range wraps.
 */
int guarded_probe(const void *base, size_t len, bool writable);

/* Installs the handlers, once. Called by guarded_probe; any thread. */
void guarded_copy_install(void);

/*
 * Looks whether the handlers are still ours and chooses the way to copy. To be
 * called every second or so by who holds the node's lock.
 */
void guarded_copy_check(void);

#endif
