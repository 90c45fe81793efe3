/* SPDX-License-Identifier: BSD-2-Clause */
/* Memory that goes away while it is registered, between two processes over the real link. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <sys/mman.h>

#include "pair.h"

static void write_to_what_is_gone(struct side *s)
{
    struct completion c;

    side_meet(s);
    side_post(s, WR_WRITE, 0, 5000);
    c = side_wait_sleeping(s);
    must(c.status == STATUS_REM_ACCESS_ERR || c.status == STATUS_REM_OP_ERR);
    side_meet(s);
}

static void unmap(struct side *s)
{
    must(munmap(s->memory, SIDE_MEMORY_LEN) == 0);
    side_meet(s);
    side_meet(s);
}

static void memory_unmapped_by_its_owner_is_an_error_for_the_writer(void **state)
{
    (void)state;
    pair_run(write_to_what_is_gone, unmap);
}

static void write_from_what_is_gone(struct side *s)
{
    must(munmap(s->memory, SIDE_MEMORY_LEN) == 0);
    side_post(s, WR_WRITE, 0, 5000);
    must(side_wait_sleeping(s).status == STATUS_LOC_PROT_ERR);
    side_meet(s);
}

static void wait_for_the_end(struct side *s)
{
    side_meet(s);
}

static void memory_unmapped_by_the_sender_is_a_local_error(void **state)
{
    (void)state;
    pair_run(write_from_what_is_gone, wait_for_the_end);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(memory_unmapped_by_its_owner_is_an_error_for_the_writer),
        cmocka_unit_test(memory_unmapped_by_the_sender_is_a_local_error),
    };

    return cmocka_run_group_tests(tests, pair_namespace, NULL);
}
