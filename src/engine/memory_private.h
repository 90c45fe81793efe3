/* SPDX-License-Identifier: BSD-2-Clause */
/* The table of keys that each engine owns. */
#ifndef UROCE_ENGINE_MEMORY_PRIVATE_H
#define UROCE_ENGINE_MEMORY_PRIVATE_H

struct engine;

/* Makes e->mrs, with secrets drawn from e->random. Returns 0 or -ENOMEM. */
int mr_table_new(struct engine *e);

/* All regions must be freed before (assert). Does nothing when there is no table. */
void mr_table_free(struct engine *e);

/* Asserts what always holds of the table. */
void mr_table_check(const struct engine *e);

#endif
